"""The command line: check, plan, run, verify, mechanisms.

Exit codes: 0 done, 1 an unexpected failure, 2 the input is wrong, 3 the budget does not allow it,
4 verification failed. Results go to standard output, everything else to standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from dprelease.errors import DpReleaseError, Findings

if TYPE_CHECKING:
    from dprelease.release.plan import Plan

EXIT_UNEXPECTED = 1

app = typer.Typer(
    help="Differentially private data releases.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

ReleaseFile = Annotated[Path, typer.Argument(help="The release file, YAML.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Answer in JSON, for programs.")]


@app.command()
def check(release: ReleaseFile, as_json: AsJson = False) -> None:
    """Read a release and its tables, and report every finding; opens no data."""
    with _reporting(as_json):
        from dprelease.release.prepare import prepare
        from dprelease.schema.load import read_declaration

        queries, _ = prepare(read_declaration(release))
        columns = sum(len(query.measures) for query in queries)
        answer = {"ok": True, "queries": len(queries), "columns": columns}
        words = f"{release.name} is in order: {len(queries)} queries, {columns} columns."
        _answer(as_json, answer, words)


@app.command()
def plan(release: ReleaseFile, as_json: AsJson = False) -> None:
    """Print noise, expected error and price of every column; opens no data."""
    with _reporting(as_json):
        from dprelease.release.prepare import prepare
        from dprelease.schema.load import read_declaration

        _, found = prepare(read_declaration(release))
        _answer(as_json, found.to_json(), _plan_words(found))


@app.command()
def run(
    release: ReleaseFile,
    output: Annotated[
        Path | None, typer.Option(help="Publish into this folder instead of the declared one.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the release that is there.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the SQL; open no data, publish nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Publish a release: noised Parquet files and a manifest, all or nothing."""
    with _reporting(as_json):
        from dprelease.schema.load import read_declaration

        declaration = read_declaration(release)
        if dry_run:
            from dprelease.release.prepare import prepare
            from dprelease.sql.compiler import assumed_types, compile_query

            queries, _ = prepare(declaration)
            texts = {q.name: compile_query(q, assumed_types(q)).sql for q in queries}
            words = "\n\n".join(f"-- {name}\n{sql};" for name, sql in texts.items())
            _answer(as_json, {"sql": texts}, words)
            return
        from dprelease.release.pipeline import run as publish

        with _progress(len(declaration.spec.queries) + 1) as progress:
            target = publish(declaration, output=output, overwrite=overwrite, progress=progress)
        files = sorted(path.name for path in target.iterdir())
        answer = {"output": str(target), "files": files}
        _answer(as_json, answer, f"Published {', '.join(files)} in {target}.")


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(help="The folder of a release.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Recompute everything about a release that can be recomputed without the data."""
    with _reporting(as_json):
        from dprelease.release.verify import verify as check_release

        report = check_release(folder)
        if report.findings:
            if as_json:
                typer.echo(json.dumps(report.to_json(), indent=2))
                raise typer.Exit(report.findings[0].exit_code)
            _fail(Findings(report.findings), as_json)
        guarantee = report.guarantee
        lines = [f"ok  {line}" for line in report.checked]
        if guarantee is not None:
            delta = float(guarantee.delta)
            lines.append(f"The release is ({guarantee.epsilon:.6g}, {delta:g})-private.")
        _answer(as_json, report.to_json(), "\n".join(lines))


@app.command()
def mechanisms(as_json: AsJson = False) -> None:
    """List the mechanisms."""
    with _reporting(as_json):
        from dprelease.mechanisms import registry

        found = [registry.get(name) for name in registry.names()]
        answer = [{"name": m.name, "summary": m.summary, "pure": m.pure} for m in found]
        width = max(len(mechanism.name) for mechanism in found)
        words = "\n".join(f"{m.name:<{width}}  {m.summary}" for m in found)
        _answer(as_json, answer, words)


def _answer(as_json: bool, answer: object, words: str) -> None:
    typer.echo(json.dumps(answer, indent=2, ensure_ascii=False) if as_json else words)


def _plan_words(found: Plan) -> str:
    guarantee = found.guarantee
    pure = "" if guarantee.accountant == "pure" else f", delta {float(guarantee.delta):g}"
    heads = ("column", "cells", "mechanism", "scale", "mean error", "95 % margin", "unit")
    rows = [heads]
    for column in found.columns:
        rows.append(
            (
                f"{column.query.name}.{column.measure.name}",
                f"{column.query.keys.size:,}",
                column.mechanism.name,
                f"{column.mechanism.scale:.6g}",
                f"{column.mean_absolute_error:,.6g}",
                f"{float(column.margin()):,.6g}",
                column.measure.unit,
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(heads))]
    lines = ["  ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)) for row in rows]
    head = f"epsilon {guarantee.epsilon:.6g}{pure}, neighbours {guarantee.neighbours.value}"
    return "\n".join([head, "", *(line.rstrip() for line in lines)])


@contextmanager
def _progress(steps: int) -> Iterator[Callable[[str], None]]:
    """Yield a callback that shows a bar to people at a terminal, and nothing to programs."""
    if not sys.stderr.isatty():
        yield lambda _step: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    parts = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*parts, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=steps)

        def show(step: str) -> None:
            bar.update(task, description=step, advance=1)

        yield show


@contextmanager
def _reporting(as_json: bool) -> Iterator[None]:
    """Turn every failure into a message and an exit code; no traceback, no local variable."""
    unexpected = ""
    try:
        yield
    except DpReleaseError as error:
        _fail(error, as_json)
    except (typer.Exit, KeyboardInterrupt):
        raise
    except Exception as problem:  # noqa: BLE001 - its text may quote data, so only its type is told
        unexpected = type(problem).__name__
    if unexpected:
        from dprelease.errors import InternalError, State

        check = f"a {unexpected} was not expected here"
        _fail(InternalError("DP-INTERNAL-001", state=State.READ, check=check), as_json)


def _fail(error: DpReleaseError, as_json: bool) -> NoReturn:
    several = list(error.errors) if isinstance(error, Findings) else [error]
    if as_json:
        typer.echo(json.dumps({"ok": False, "findings": [e.to_json() for e in several]}, indent=2))
    else:
        typer.echo(str(error), err=True)
    raise typer.Exit(error.exit_code)


def main() -> None:
    """Run the command line."""
    app()
