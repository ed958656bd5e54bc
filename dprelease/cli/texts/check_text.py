"""The results of `check` for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.errors import DataError, DeclarationError, DpReleaseError, Findings, LedgerError
from dprelease.errors.printable import count_text, one_line

if TYPE_CHECKING:
    from dprelease.planning.plan import Plan
    from dprelease.query.resolve import Query
    from dprelease.release.check_result import CheckResult
    from dprelease.schema.load import Declaration


# The part of a plan on the release's ledger, for a terminal.


@dataclass(frozen=True, slots=True)
class ForecastTexts:
    """The remaining budget in a ledger as JSON values and as text; empty without a ledger."""

    answer: Mapping[str, object] | None = None
    words: tuple[str, ...] = ()


def refusal_text(refusal: DataError) -> str:
    """Return a text that a run would be refused for a table that its engine can't read."""
    run = "a run would fail"
    if refusal.code != "DP-SPARK-005":  # persons are looked up for frames, too
        run += ", unless a frame is passed instead of the table"
    return f"{run}. {_sentence(refusal)}"


def warning_text(warning: DeclarationError) -> str:
    """Return the text of a warning with its position in a declaration."""
    return f"{warning.place}: {_sentence(warning)}"


def _sentence(error: DpReleaseError) -> str:
    return f"{error.code}  {error.cause} {error.fix[:1].upper()}{error.fix[1:]}"


def ledger_forecast_texts(
    declaration: Declaration, queries: Sequence[Query], plan: Plan
) -> ForecastTexts:
    """Return the forecast of a release's ledger for a plan.

    A plan needs no ledger. If the ledger is on another machine, or would refuse a run, the text
    reports this as a problem.
    """
    if declaration.spec.ledger is None:
        return ForecastTexts()
    from dprelease.release.ledger_forecast import ledger_outlooks

    name = Path(declaration.spec.ledger).name
    try:
        tables = ledger_outlooks(declaration, queries, plan) or ()
    except LedgerError as error:
        problem = f"Warning: the ledger would refuse a run. {error.code}  {error.cause}"
        return ForecastTexts(
            {"file": name, "problem": error.code, "tables": []}, (one_line(problem),)
        )
    answer = {"file": name, "problem": None, "tables": [one.to_json() for one in tables]}
    return ForecastTexts(answer, ("\n".join(one_line(f"{name}, {one.words}") for one in tables),))


def together(errors: Sequence[DpReleaseError]) -> DpReleaseError:
    """Return a single error, or several errors as one."""
    return errors[0] if len(errors) == 1 else Findings(errors)


def in_folder(error: DpReleaseError, path: Path) -> DpReleaseError:
    """Return an error whose position names the file with the folder of the checked file."""
    named = path if error.place.file is None else path.parent / error.place.file
    error.set_place(replace(error.place, file=str(named)))
    return error


def several_texts(files: Sequence[Path], results: Sequence[CheckResult]) -> str:
    """Return one line for each file, and then the details of files with notes or warnings."""
    lines, details = [], []
    for path, result in zip(files, results, strict=True):
        name = one_line(str(path))
        if result.findings:
            errors = count_text(len(result.findings), "error", "errors")
            lines.append(f"wrong  {name}: {errors}")
            continue
        lines.append(f"ok     {name}: {_contents_text(result)}")
        more = _detail_lines(result)
        details += ["\n".join([f"{name}:", *(f"  {line}" for line in more)])] if more else []
    return "\n\n".join(["\n".join(lines), *details])


def result_text(result: CheckResult) -> str:
    """Return the text for one file without errors."""
    first = f"{one_line(result.name)} is in order: {_contents_text(result)}."
    return "\n".join([first, *_detail_lines(result)])


def _contents_text(result: CheckResult) -> str:
    """Return the numbers of tables and columns of a file."""
    columns = count_text(result.columns, "column", "columns")
    if result.is_schema:
        return f"a table schema with {columns}"
    return f"{count_text(result.tables, 'table', 'tables')}, {columns}"


def _detail_lines(result: CheckResult) -> list[str]:
    """Return what is not checked, warnings and notes, each in one line."""
    lines = [f"Not checked until Spark runs: {one_line(what)}." for what in result.left_open]
    warnings = [*map(refusal_text, result.unread), *result.invariants]
    warnings += map(warning_text, result.warnings)
    lines += [f"Warning: {one_line(warning)}" for warning in warnings]
    lines += [one_line(str(note)) for note in result.notes if note.items]
    if result.without_label:
        bare = one_line(", ".join(result.without_label))
        lines.append(f"Without a label, although others have one: {bare}.")
    return lines
