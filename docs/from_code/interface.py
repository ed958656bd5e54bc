"""The public names of the package, by Sphinx's own reading of docstrings."""

from __future__ import annotations

import inspect

import dprelease

INHERITED = (":inherited-members: object",)
ACCESSOR = "dprelease.accessor.frame.DpAccessor"
AFTER = "dprelease.verification.after_publication"
BESIDE = {
    "Methods of groups: the result of `df.dp.groupby`": "dprelease.accessor.groups.GroupBy",
    "Methods of columns of groups": "dprelease.accessor.grouped_columns.SelectedColumns",
    "Results of `df.dp.tables`": "dprelease.accessor.tables.Tables",
    "Results of `check`": "dprelease.release.check_result.CheckResult",
    "Results of `run`": "dprelease.release.run_result.RunResult",
    "Spent budgets": "dprelease.release.run_result.PrivacySpent",
    "Results of `read_ledger`": "dprelease.release.accounts.LedgerBalances",
    "Balances": "dprelease.release.accounts.Balance",
    "Results of `export_to_database`": f"{AFTER}.database_export.DatabaseResult",
    "Results of `export_to_store`": f"{AFTER}.store_export.StoreResult",
    "Results of `export`": f"{AFTER}.export_copy.ExportResult",
    "Plans": "dprelease.planning.plan.Plan",
    "Results of `verify`": "dprelease.verification.report.Report",
    "Estimates": "dprelease.verification.after_publication.record_estimates.Estimate",
}
"""Classes that public functions return, by the title of their sections."""


def pages() -> str:
    """Return Sphinx directives for all public names, and for the classes that they return."""
    things = {name: getattr(dprelease, name) for name in dprelease.__all__}
    functions = [_directive("autofunction", one) for one in things.values() if _is_function(one)]
    classes = [
        _class(_path(one), *INHERITED if one is dprelease.PublishedRelease else ())
        for one in things.values()
        if inspect.isclass(one)
    ]
    parts = ["## Functions", *functions, "## Classes", *classes]
    parts += ["## `df.dp`", _class(ACCESSOR, *INHERITED)]
    for title, path in BESIDE.items():
        parts += [f"## {title}", _class(path)]
    parts += ["## Errors", _rst("automodule", "dprelease.errors")]
    return "\n\n".join(parts)


def _is_function(thing: object) -> bool:
    return inspect.isfunction(thing) or hasattr(thing, "cache_info")


def _path(thing: object) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"  # type: ignore[attr-defined]


def _directive(kind: str, thing: object) -> str:
    return _rst(kind, _path(thing))


def _class(path: str, *options: str) -> str:
    return _rst("autoclass", path, ":members:", *options)


def _rst(kind: str, path: str, *options: str) -> str:
    inner = "".join(f"\n   {option}" for option in options)
    return f"```{{eval-rst}}\n.. {kind}:: {path}{inner}\n```"
