"""One SQL statement from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.reporting import AsJson, reporting, respond


def ask(
    statement: Annotated[str, typer.Argument(help="One SELECT.", show_default=False)],
    schema: Annotated[
        list[Path], typer.Option(help="A table schema; repeat it for several tables.")
    ],
    epsilon: Annotated[str, typer.Option(metavar="NUMBER", show_default=False)],
    delta: Annotated[str, typer.Option(metavar="NUMBER")] = "0",
    neighbours: Annotated[str, typer.Option(help="add_remove or replace.")] = "add_remove",
    mechanism: Annotated[str, typer.Option(help="A mechanism's name.")] = "auto",
    ledger: Annotated[Path | None, typer.Option(help="A ledger that is charged.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Publish the noised table and its manifest here.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Answer one SELECT statement over a declared table with noise."""
    with reporting(as_json) as state:
        from dprelease.release.question import sql

        found = sql(
            statement,
            schema,
            epsilon=epsilon,
            delta=delta,
            neighbours=neighbours,
            mechanism=mechanism,
            ledger=ledger,
            output=output,
            state=state,
        )
        told = found.attrs["dprelease"]
        guarantee = told["guarantee"]
        margins = ", ".join(f"{name} {moe:,.6g}" for name, moe in told["margins_95"].items())
        price = f"epsilon {guarantee['epsilon']}, delta {guarantee['delta']}"
        words = f"{found.to_string(index=False)}\n\n{price}; margins of error at 95 %: {margins}"
        rows = found.astype(object).where(found.notna(), None).to_dict("records")
        respond(as_json, {"rows": rows, **told}, words)
