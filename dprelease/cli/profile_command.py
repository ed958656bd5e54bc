"""`dprelease profile`: exact numbers about the data, only for people who may see the data."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dprelease.cli.releases import ReleaseFile, Set, Sources
from dprelease.cli.reporting import AsJson, Wide, print_result, report_failures
from dprelease.cli.texts.text_tables import table_text
from dprelease.errors import OutputError
from dprelease.errors.printable import one_line

if TYPE_CHECKING:
    from dprelease.profile.bounds import TriedLimit
    from dprelease.profile.look import Profile
    from dprelease.profile.losses import LeftOutRows

PICTURES = (".png", ".svg", ".pdf")


def profile(
    release: ReleaseFile,
    output: Annotated[
        Path | None,
        typer.Option(help="Write it to this new file, which only you can read (JSON: .json)."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Also draw the effect of limits to a new image file that only you can read."
        ),
    ] = None,
    source: Sources = None,
    seen: Annotated[
        bool, typer.Option("--i-may-see-it", help="Print it even if the output is not a terminal.")
    ] = False,
    variables: Set = None,
    wide: Wide = False,
    as_json: AsJson = False,
) -> None:
    """READ THE DATA, and report exactly what a release would leave out. Confidential.

    Nothing is charged, published or noted. A choice made from this is made from the data.
    """
    with report_failures(as_json) as state:
        from dprelease.planning.declaration_findings import load_declaration
        from dprelease.profile.look import profile as look
        from dprelease.profile.private_file import private_file
        from dprelease.release.path_conflicts import refuse_as_source
        from dprelease.release.run_options import parse_sources, with_sources
        from dprelease.schema.release_parts.variables import parse_assignments

        if output is None and not seen and not _is_terminal():
            raise OutputError("DP-PROFILE-001")
        if plot is not None and plot.suffix.lower() not in PICTURES:
            raise OutputError("DP-OUTPUT-005", name=plot.name, formats=", ".join(PICTURES))
        declaration = load_declaration(release, parse_assignments(variables))
        declaration = with_sources(declaration, parse_sources(source))
        # Opened before rows are read, so that a path that can't be written costs no reading.
        with ExitStack() as files:
            written = (
                None if output is None else files.enter_context(private_file(output, declaration))
            )
            drawn = None if plot is None else files.enter_context(private_file(plot, declaration))
            for path in (output, plot):
                if path is not None:
                    refuse_as_source(declaration, path)  # the next run would read this file
            found = look(declaration, {}, state)
            if drawn is not None and plot is not None:
                from dprelease.profile.private_file import draw_limits

                draw_limits(found.bounds, drawn, plot.name)
            if written is None or output is None:
                print_result(as_json, found.to_json(), profile_text(found, wide=wide))
                return
            text = profile_text(found, wide=True)
            if as_json or output.suffix.lower() == ".json":
                text = json.dumps(found.to_json(), indent=1, ensure_ascii=False)
            written.write(f"{text}\n".encode())
        words = f"Written to {one_line(str(output))}, which only you can read."
        print_result(as_json, {"output": str(output)}, words)


def _is_terminal() -> bool:
    """Return whether the standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def profile_text(found: Profile, *, wide: bool) -> str:
    """Return a profile as text: a warning, tables of rows, values and bounds, the warning again."""
    from dprelease.profile.look import CONFIDENTIAL, WARNING

    parts = [CONFIDENTIAL, table_text(_row_table(found.left_out), wide=wide)]
    mistakes = [(one.query, words) for one in found.left_out for words in one.likely_mistakes]
    parts += ["\n".join(f"{tables}: {one_line(words)}" for tables, words in _each_once(mistakes))]
    values = _value_table(found.left_out)
    parts += [table_text(values, wide=wide)] if len(values) > 1 else []
    fractions = _fraction_table(found.left_out)
    parts += [table_text(fractions, wide=wide)] if len(fractions) > 1 else []
    bounds = _bound_table(found.bounds)
    parts += [table_text(bounds, wide=wide), WARNING] if len(bounds) > 1 else []
    return "\n\n".join([*filter(None, parts), CONFIDENTIAL])


def _row_table(left_out: tuple[LeftOutRows, ...]) -> list[tuple[str, ...]]:
    """Return a table of the numbers of rows that each query reads, leaves out and counts."""
    lines: list[tuple[str, ...]] = [("table", "rows", "number", "part")]
    for one in left_out:
        counts: list[tuple[str, int | None]] = [("read", one.rows)]
        if one.lines is not None:
            counts.insert(0, ("lines of the file", one.lines))
        if one.other_lines is not None:
            lines.append((one.query, "header, comments and notes", f"{one.other_lines:,}", ""))
        counts += [("joined", one.asked if one.asked != one.rows else None)]
        counts += [("excluded by the condition", one.condition or None)]
        counts += [("without a declared key", one.no_cell or None)]
        counts += [(f"  by '{name}'", n) for name, n in one.keys.items() if n]
        counts += [("without an id", one.no_id or None)]
        counts += [("cut by contribution limits", one.bounded)]
        counts += [("counted", one.remaining_rows)]
        for words, number in counts:
            if number is not None:
                lines.append((one.query, words, f"{number:,}", _percent_text(number, one.asked)))
    return _each_once(lines)


def _each_once(lines: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return lines that are equal but for the table in their first cell once, with all tables."""
    from dprelease.planning.bounded_words import table_range_text

    tables: dict[tuple[str, ...], list[str]] = {}
    for table, *rest in lines:
        tables.setdefault(tuple(rest), []).append(table)
    return [(table_range_text(names), *rest) for rest, names in tables.items()]


def _value_table(left_out: tuple[LeftOutRows, ...]) -> list[tuple[str, ...]]:
    """Return a table of the numbers of values that are missing, unreadable or beyond a bound."""
    lines: list[tuple[str, ...]] = [("table", "column", "values", "number", "part")]
    for one in left_out:
        for words, numbers in (
            ("not read as declared", one.unread),
            ("missing", one.missing),
            ("below the lower bound", one.low),
            ("above the upper bound", one.high),
        ):
            for column, n in numbers.items():
                if n:
                    lines.append((one.query, column, words, f"{n:,}", _percent_text(n, one.asked)))
    return _each_once(lines)


def _fraction_table(left_out: tuple[LeftOutRows, ...]) -> list[tuple[str, ...]]:
    """Return a table of the mean of each fraction, over all rows and over counted rows."""
    lines: list[tuple[str, ...]] = [("table", "column", "of all rows", "of counted rows")]
    for one in left_out:
        for column, values in one.fractions.items():
            numbers = ("" if value is None else _number_text(value) for value in values)
            lines.append((one.query, column, *numbers))
    return _each_once(lines)


def _bound_table(bounds: tuple[TriedLimit, ...]) -> list[tuple[str, ...]]:
    """Return a table of the effects of tried contribution limits."""
    effects = ("rows lost", "people who lose rows", "cut off a cell", "noise", "error at most")
    heads = ("column", "limit", "", *effects, "unit")
    lines: list[tuple[str, ...]] = [heads]
    for one in bounds:
        lines.append(
            (
                f"{one.query}.{one.column}",
                f"{one.bound} {one.value:,}",
                "declared" if one.declared else "",
                f"{100 * one.cut_rows:.3g} %",
                f"{100 * one.cut_people:.3g} %",
                _number_text(one.cut),
                _number_text(one.noise),
                _number_text(one.error),
                one.unit,
            )
        )
    return lines


def _percent_text(number: int, rows: int) -> str:
    """Return a number of rows as a percentage of all rows; empty if there are no rows."""
    return f"{100 * number / rows:.3g} %" if rows else ""


def _number_text(number: Any) -> str:
    """Return a number with four significant digits; "none fits" if there is none."""
    return "none fits" if number is None else f"{number:,.4g}"
