"""List noise mechanisms, compare their errors under a budget, and print JSON Schemas."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dprelease.cli.reporting import (
    AsJson,
    Commands,
    Wide,
    print_result,
    print_text,
    report_failures,
)
from dprelease.cli.texts.frame_output import check_chart_path
from dprelease.cli.texts.text_tables import table_text

if TYPE_CHECKING:
    from dprelease.planning.auto.single_mechanism import MechanismComparison


app = Commands(help="List the mechanisms, or compare them under a budget.")

Number = typer.Option(
    show_default=False, metavar="NUMBER", help="The budget of all results together."
)


@app.callback(invoke_without_command=True)
def listing(context: typer.Context, as_json: AsJson = False) -> None:
    """List the mechanisms: parameters, guarantee, tail, and when to use which."""
    if context.invoked_subcommand is not None:
        return
    with report_failures(as_json, prints_only=True):
        listed = _mechanism_records()
        heads = ("mechanism", "guarantee", "what it is", "parameters", "when to use")
        rows = [heads]
        for row in listed:
            shapes = "; ".join(f"{s['name']}: {s['admissible']}" for s in row["shapes"]) or "-"
            guarantee = "pure" if row["pure"] else "approximate"
            if row["kind"] == "selection":
                guarantee = f"selects a candidate, {guarantee}"
            rows.append((row["name"], guarantee, row["summary"], shapes, row["use"]))
        print_result(as_json, listed, _mechanism_paragraphs(rows))


def _mechanism_records() -> list[dict[str, Any]]:
    """Return the properties of every mechanism as JSON values."""
    from dprelease.mechanisms import registry

    listed: list[dict[str, Any]] = []
    for name in registry.names():
        kind = registry.get(name)
        shapes = [
            {"name": s.name, "meaning": s.meaning, "admissible": s.admissible}
            for s in kind.shape_parameters
        ]
        listed.append(
            {
                "name": name,
                "kind": "noise",
                "summary": kind.summary,
                "use": kind.use_case,
                "pure": kind.pure,
                "shapes": shapes,
            }
        )
    for name in registry.selection_names():
        selection = registry.selection_class(name)
        listed.append(
            {
                "name": name,
                "kind": "selection",
                "summary": selection.summary,
                "use": selection.use_case,
                "pure": True,
                "shapes": [],
            }
        )
    return listed


def _mechanism_paragraphs(rows: Sequence[tuple[str, ...]]) -> str:
    """Return one paragraph for each mechanism, with lines that fit into the terminal's width."""
    heads, *bodies = rows
    cards = []
    for name, guarantee, *rest in bodies:
        lines = [f"{name} ({guarantee})"]
        lines += [
            f"    {head}: {text}" for head, text in zip(heads[2:], rest, strict=True) if text != "-"
        ]
        cards.append("\n".join(lines))
    return "\n\n".join(cards)


@app.command()
def compare(
    epsilon: Annotated[str, Number],
    delta: Annotated[str, typer.Option(metavar="NUMBER", help="0 for a pure guarantee.")] = "0",
    sensitivity: Annotated[
        int,
        typer.Option(
            min=1, max=2**40, help="The steps by which one privacy unit can change a result."
        ),
    ] = 1,
    answers: Annotated[
        int,
        typer.Option(
            min=1, max=10_000, help="The number of results that one privacy unit can change."
        ),
    ] = 1,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw the errors into this PNG, SVG or PDF file.")
    ] = None,
    wide: Wide = False,
    as_json: AsJson = False,
) -> None:
    """Print the errors of all mechanisms under one budget, each with its best parameters."""
    with report_failures(as_json, prints_only=plot is None):
        from dprelease.planning.auto.single_mechanism import compare as compared
        from dprelease.planning.auto.single_mechanism import parse_budget

        if plot is not None:
            check_chart_path(plot)
        rows = compared(parse_budget(epsilon, delta), sensitivity, answers)
        if plot is not None:
            from dprelease.planning.charts import draw_comparison

            draw_comparison(rows, plot)
        print_result(as_json, [row.to_json() for row in rows], _comparison_text(rows, wide=wide))


def _comparison_text(rows: list[MechanismComparison], *, wide: bool) -> str:
    """Return the errors of mechanisms as a table, one row for each mechanism."""
    heads = ("mechanism", "shape", "mean error", "RMSE", "95 %", "99.9 %", "efficiency")
    lines: list[tuple[str, ...]] = [heads]
    for row in rows:
        fields = row.to_json()
        shape = ", ".join(
            f"{name} {_parameter_text(text)}" for name, text in fields["shape"].items()
        )
        efficiency = "-" if row.efficiency is None else f"{100 * row.efficiency:.1f} %"
        errors = (fields["mean_absolute_error"], fields["root_mean_square_error"])
        lines.append(
            (
                row.mechanism.name,
                shape or "-",
                *("none" if error is None else f"{error:,.6g}" for error in errors),
                f"{fields['error_95']:,}",
                f"{fields['error_99.9']:,}",
                efficiency,
            )
        )
    return table_text(lines, wide=wide, more=("RMSE", "99.9 %"))


def _parameter_text(text: str) -> str:
    """Return a noise parameter with four significant digits; a word is unchanged."""
    try:
        return f"{float(text):.4g}"
    except ValueError:
        return text


Document = Literal[
    "release", "table", "defaults", "manifest", "local_manifest", "federated_manifest"
]


def show(
    document: Annotated[
        Document,
        typer.Argument(help="By hand: release, table, defaults.", show_default=False),
    ],
    as_json: AsJson = False,
) -> None:
    """Print the JSON Schema of a document: every key, for people and for editors."""
    with report_failures(as_json, prints_only=True):  # with --json, errors are JSON as well
        from dprelease.documents.json_schemas import render_schema

        print_text(render_schema(document), end=False)
