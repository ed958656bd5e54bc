"""Commands on a release file or a release: check, plan, run, verify."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dprelease.cli import reporting
from dprelease.cli.reporting import AsJson, LedgerToCheck, SignersToCheck, Wide
from dprelease.cli.signing import Key, PassphraseFile, key_of
from dprelease.cli.texts.check_text import (
    in_folder,
    ledger_forecast_texts,
    refusal_text,
    result_text,
    several_texts,
    together,
)
from dprelease.cli.texts.frame_output import check_chart_path
from dprelease.cli.texts.plan_parts import (
    disk_space_texts,
    draw_errors,
    family_errors,
    file_list,
    has_unknown_rows,
    standard_error_texts,
)
from dprelease.errors import Findings, QueryError
from dprelease.errors.printable import one_line
from dprelease.schema.release_parts.extension_names import ENGINES

if TYPE_CHECKING:
    from dprelease.planning.families.family_errors import ConsistentErrors
    from dprelease.planning.plan import Plan
    from dprelease.schema.load import Declaration

Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Set a variable; can be repeated.", metavar="NAME=VALUE"),
]
Sources = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        help="Read a table from another path of the declared type; can be repeated.",
        metavar="TABLE=PATH",
    ),
]
ReleaseFile = Annotated[Path, typer.Argument(help="The release file, YAML.", show_default=False)]


def check(
    files: Annotated[
        list[Path],
        typer.Argument(help="Release files and table schemas, YAML.", show_default=False),
    ],
    variables: Set = None,
    as_json: AsJson = False,
) -> None:
    """Check release files and table schemas, and report all errors; opens no data."""
    with reporting.report_failures(as_json, prints_only=True):
        from dprelease.release.api import check as check_file
        from dprelease.schema.release_parts.variables import parse_assignments

        values = parse_assignments(variables)
        results = [check_file(path, variables=values) for path in files]
        if len(files) == 1:
            if results[0].findings:
                reporting.exit_with_error(together(results[0].findings), as_json)
            reporting.print_result(as_json, results[0].to_json(), result_text(results[0]))
            return
        by_file = [
            {"file": str(path), **result.to_json()}
            for path, result in zip(files, results, strict=True)
        ]
        findings = [
            in_folder(error, path)
            for path, result in zip(files, results, strict=True)
            for error in result.findings
        ]
        listed = [error.to_json() for error in findings]
        answer = {"ok": not findings, "files": by_file, "findings": listed}
        reporting.print_result(as_json, answer, several_texts(files, results))
        if findings and as_json:
            raise typer.Exit(findings[0].exit_code)
        if findings:
            reporting.exit_with_error(together(findings), as_json=False)


def plan(
    release: ReleaseFile,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Also draw margins by rows in a cell, and an attacker's errors: PNG, SVG or PDF."
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Also print all noise, which rows count, what an attacker learns, and all scans.",
        ),
    ] = False,
    variables: Set = None,
    wide: Wide = False,
    as_json: AsJson = False,
) -> None:
    """Print the guarantee, and the margin of error of every published column; opens no data."""
    with reporting.report_failures(as_json, prints_only=plot is None):
        from dprelease.planning.declaration_findings import load_declaration
        from dprelease.planning.kinds import kind_of
        from dprelease.query.unread import unreadable_table_errors
        from dprelease.release import kinds
        from dprelease.schema.release_parts.variables import parse_assignments

        if plot is not None:
            check_chart_path(plot)
        declaration = load_declaration(release, parse_assignments(variables))
        if plot is not None and not kind_of(declaration.spec).has_charts:
            raise QueryError("DP-LOCAL-007")
        made = kinds.plan_release(declaration)
        made.check()
        planned, queries = made.plan, made.plan.queries
        charged = ledger_forecast_texts(declaration, queries, planned)
        refused = unreadable_table_errors(declaration, queries)
        if plot is not None:
            from dprelease.planning.plan_charts import draw_plan

            draw_plan(planned, plot)
            draw_errors(declaration, planned, plot)
        agreement, most = family_errors(declaration, planned), made.max_table_bytes
        from dprelease.cli.texts.plan_parts import scan_records, scans_text
        from dprelease.planning.notes.limit_choices import noise_by_limit, private_limits

        by_limit = list(noise_by_limit(declaration, planned)) if as_json or explain else []
        if as_json:  # the JSON form and the text form compute different costs
            read = {"reads": scan_records(declaration.spec, queries)} if explain else {}
            agreed = [row for one in agreement for row in one.to_json()]
            at_most = {"tables_at_most": None if has_unknown_rows(planned) else most}  # bytes
            details = {"consistent": agreed, "ledger": charged.answer, **at_most}
            details["noise_by_limit"] = [noise.to_json() for noise in by_limit]
            details["limit_choices"] = [x.to_json() for x in private_limits(declaration, planned)]
            details["unread"] = [error.to_json() for error in refused]
            reporting.print_result(True, {**planned.to_json(), **read, **details}, "")
            return
        words = _plan_texts(declaration, planned, agreement, charged.words, wide, explain)
        if explain:
            from dprelease.cli.texts.plan_text import noise_by_limit_texts

            words += standard_error_texts(agreement, planned, wide=wide)
            words += noise_by_limit_texts(planned, by_limit, wide=wide)
            words.append(scans_text(declaration.spec, queries))
        words += disk_space_texts(declaration, planned, most, explain=explain)
        words += [f"Warning: {one_line(refusal_text(error))}" for error in refused]
        reporting.print_result(False, None, "\n\n".join(words))


def _plan_texts(
    declaration: Declaration,
    planned: Plan,
    agreement: Sequence[ConsistentErrors],
    ledger: Sequence[str],
    wide: bool,
    explain: bool,
) -> list[str]:
    """Return the texts of a plan: of single records, of one party's messages, or of tables."""
    from dprelease.planning.kinds import FEDERATED, LOCAL, kind_of

    kind = kind_of(declaration.spec)  # has no texts for a terminal: they need this package
    if kind is LOCAL:
        from dprelease.cli.local_commands import local_plan_text

        return [local_plan_text(planned, wide=wide), *ledger]
    from dprelease.cli.texts.plan_text import explained_plan_texts, table_plan_text
    from dprelease.planning.families.family_errors import family_margins
    from dprelease.planning.notes.limit_choices import private_limit_texts

    margins = family_margins(agreement)
    words = [table_plan_text(planned, wide=wide, ledger=ledger, estimates=margins)]
    words += filter(None, ["\n".join(private_limit_texts(declaration, planned))])
    if explain:
        words += explained_plan_texts(planned, wide=wide)
    if kind is not FEDERATED:
        return words
    from dprelease.cli.local_commands import federated_plan_text

    parties = federated_plan_text(planned, wide=wide, explain=explain)
    return [parties, "All honest parties together:", *words]


def run(
    release: ReleaseFile,
    output: Annotated[
        Path | None, typer.Option(help="Publish into this folder instead of the declared one.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the release that is already there.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print the SQL: open no data, publish nothing.")
    ] = False,
    engine: Annotated[
        str | None,
        typer.Option(
            help="The engine that reads the data, instead of the declared one.",
            metavar=f"[{'|'.join(ENGINES)}]",
            callback=_check_engine,
        ),
    ] = None,
    party: Annotated[
        int | None,
        typer.Option(help="The number of the party that runs its part of a federated release."),
    ] = None,
    if_published: Annotated[
        str,
        typer.Option(
            help="If this declaration is already published there: fail with exit code 5, or skip "
            "the run with exit code 0.",
            metavar="[fail|skip]",
            callback=_check_policy,
        ),
    ] = "fail",
    source: Sources = None,
    variables: Set = None,
    key: Key = None,
    passphrase_file: PassphraseFile = None,
    audit: Annotated[
        Path | None,
        typer.Option(
            help="Publish the release with this audit.json, the result of an audit of it."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Publish a release: Parquet files with noise and a manifest, all or nothing."""
    with reporting.report_failures(as_json) as state:
        from dprelease.planning.declaration_findings import load_declaration
        from dprelease.release.run_options import (
            parse_sources,
            with_engine,
            with_party,
            with_signing_key,
            with_sources,
        )
        from dprelease.schema.release_parts.variables import parse_assignments

        declaration = with_engine(load_declaration(release, parse_assignments(variables)), engine)
        declaration = with_sources(with_party(declaration, party), parse_sources(source))
        if dry_run:
            texts = _sql_statements(declaration)
            words = "\n\n".join(
                f"-- {name}\n{_flatten_literals(sql)};" for name, sql in texts.items()
            )
            reporting.print_result(as_json, {"sql": texts}, words)
            return
        from dprelease.documents.encoding import NAME
        from dprelease.release.run_result import publish

        if audit is not None:  # most runs name no audit, and the module that reads one loads slowly
            from dprelease.release.run_options import with_audit

            declaration = with_audit(declaration, audit)
        declaration = with_signing_key(declaration, key_of(key, passphrase_file))
        spec = declaration.spec
        steps = len(spec.published_tables) + len(spec.records) + len(spec.extra_formats) + 1
        target = output or declaration.folder / spec.output
        replaces = overwrite and (target / NAME).is_file()
        with reporting.progress_bar(steps) as progress:
            result = publish(
                declaration,
                output=output,
                overwrite=overwrite,
                if_published="skip" if if_published == "skip" else "fail",
                progress=progress,
                state=state,
            )
        what = f"Published {file_list(result.files)}" if result.published else "Already published"
        words = f"{what} in {result.folder}."
        if replaces and result.published and result.ledger_entry is None:
            words += AGAIN_WITHOUT_LEDGER
        reporting.print_result(as_json, result.to_json(), one_line(words))


AGAIN_WITHOUT_LEDGER = (
    " It replaces a release. For everybody who has seen the replaced numbers, the privacy costs of "
    "both add up, and no ledger counts them: declare `ledger` to keep their sum below a budget."
)


def _check_policy(name: str) -> str:
    """Return "fail" or "skip"; raise a usage error for anything else."""
    if name not in ("fail", "skip"):
        raise typer.BadParameter(f"{name!r} is not one of 'fail', 'skip'.")
    return name


def _check_engine(name: str | None) -> str | None:
    """Return the name of an engine, or None; raise a usage error for an unknown name."""
    if name is not None and name not in ENGINES:
        known = ", ".join(map(repr, ENGINES))
        raise typer.BadParameter(f"{name!r} is not one of {known}.")
    return name


def _flatten_literals(sql: str) -> str:
    """Return an SQL statement whose quoted literals have no line breaks."""
    return re.sub(r"""'[^']*'|"[^"]*\"""", lambda quoted: one_line(quoted[0]), sql)


def _sql_statements(declaration: Declaration) -> dict[str, str]:
    """Return the SQL statement of every published table by name, for the declared column types."""
    from dprelease.planning.kinds import kind_of
    from dprelease.planning.prepare import prepare

    return kind_of(declaration.spec).statements(prepare(declaration)[1])


def verify(
    folder: Annotated[
        Path, typer.Argument(help="The folder of a release, or audit.json.", show_default=False)
    ],
    ledger: LedgerToCheck = None,
    signers: SignersToCheck = None,
    rehearsal: Annotated[
        bool, typer.Option("--rehearsal", help="Verify a rehearsal instead of a release.")
    ] = False,
    certify: Annotated[
        bool,
        typer.Option("--certify", help="Also prove the claimed privacy cost; fails if it can't."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Recompute everything about a release that can be recomputed without the data."""
    with reporting.report_failures(as_json, prints_only=True):
        from dprelease.cli.texts.check_text import certificate_text, verification_text
        from dprelease.errors import OutputError
        from dprelease.verification.verify import verify as check_release

        if folder.is_file() and (ledger is not None or rehearsal or certify):
            raise typer.BadParameter("only --signers can be used with an audit.")
        if not (
            folder.is_dir() or folder.is_file()
        ):  # the input is wrong, but nothing was found wrong with a release
            raise OutputError("DP-OUTPUT-011", path=folder)
        report = check_release(
            folder, ledger=ledger, signers=signers, rehearsal=rehearsal, certify=certify
        )
        if report.findings:
            if as_json:
                reporting.print_text(json.dumps(report.to_json(), indent=2))
                raise typer.Exit(report.findings[0].exit_code)
            if report.certificate is not None:  # print what is proved next to what is not proved
                reporting.print_text(certificate_text(report.certificate))
            reporting.exit_with_error(Findings(report.findings), as_json)
        reporting.print_result(as_json, report.to_json(), verification_text(report))
