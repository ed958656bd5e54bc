"""The Python interface to releases: read a release file, plan the release, run it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.errors.local_paths import check_paths
from dprelease.planning.plan import Plan
from dprelease.planning.prepare import prepare
from dprelease.release.kinds import plan_release
from dprelease.schema.load import Declaration
from dprelease.system.summaries import Summarized, Summary

if TYPE_CHECKING:
    from dprelease.release.ledger_forecast import Outlook
    from dprelease.signatures.keys import SigningKey


class Release(Summarized):
    """A declared release; `plan` reads no data, `run` reads it and publishes."""

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration

    def _summary(self) -> Summary:
        """Return the queries, and the tables that they read."""
        queries = getattr(self.declaration.spec, "queries", {})
        rows = [(name, getattr(query, "source", "")) for name, query in queries.items()]
        return f"Release: {self.title}", ("query", "table"), rows

    @property
    def title(self) -> str:
        """Return the title."""
        return self.declaration.spec.title

    def plan(self) -> Plan:
        """Return mechanism, privacy cost and expected error of every column.

        Raises
        ------
        QueryError, BudgetError, Findings
            If a query has no bounded sensitivity, nothing fits the budget, or a format is
            impossible.
        """
        release = plan_release(self.declaration)
        release.check()
        return release.plan

    def outlook(self) -> tuple[Outlook, ...] | None:
        """Return the remaining budget in the release's ledger by table; None without a ledger.

        Raises
        ------
        DpReleaseError
            The errors of `plan`; LedgerError if the ledger is missing, or can't pay for these
            tables.
        """
        from dprelease.release.ledger_forecast import ledger_outlooks

        return ledger_outlooks(self.declaration, *prepare(self.declaration))

    def run(
        self,
        *,
        output: str | Path | None = None,
        overwrite: bool = False,
        frames: Mapping[str, object] | None = None,
        engine: str | None = None,
        party: int | None = None,
        key: str | Path | SigningKey | None = None,
        audit: str | Path | None = None,
    ) -> Path:
        """Publish the release and return its folder.

        `frames` maps table names, or the name in `source: {frame: name}`, to pandas or Arrow frames
        that replace the declared sources. `engine`: duckdb or spark, instead of the declared
        engine. `party`: in a federated release, the number of the party whose messages are written.
        `key`: the key that signs the manifest, and the entries of a ledger with signers: an Ed25519
        key of OpenSSH, or the result of `signing_key`. `audit`: the file audit.json of an audit of
        this release, which is published with the release.

        Raises
        ------
        DpReleaseError
            Any of its subclasses; then nothing is published.
        """
        check_paths(output, key, audit)
        from dprelease.exact.engines import refuse_unknown_frames
        from dprelease.release.audit_check import with_audit
        from dprelease.release.run_options import with_engine, with_party, with_signing_key
        from dprelease.release.runs.pipeline import run

        known = self.declaration.tables.values()
        given = {} if frames is None else frames
        refuse_unknown_frames((declared.table for declared in known), given)
        target = None if output is None else Path(output)
        declaration = with_signing_key(
            with_party(with_engine(self.declaration, engine), party), key
        )
        declaration = with_audit(declaration, audit)
        return run(declaration, output=target, overwrite=overwrite, frames=frames)


def read_release(path: str | Path, *, variables: Mapping[str, object] | None = None) -> Release:
    """Return the release that a YAML file declares.

    `variables`: the values of its variables by name, in the form in which they would be written in
    the file.

    Raises
    ------
    DeclarationError, QueryError, BudgetError, Findings
        For all errors in the file, its tables and its queries, each with file, line and key.
    """
    check_paths(path)
    from dprelease.planning.declaration_findings import load_declaration
    from dprelease.schema.release_parts.variables import parse_assignments

    return Release(load_declaration(Path(path), parse_assignments(variables)))
