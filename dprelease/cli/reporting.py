"""How the commands answer: results, progress and failures."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, NoReturn

import typer

from dprelease.errors import DpReleaseError, Findings

AsJson = Annotated[bool, typer.Option("--json", help="Answer in JSON, for programs.")]


def respond(as_json: bool, answer: object, words: str) -> None:
    """Print a result: JSON for programs, words for people."""
    typer.echo(json.dumps(answer, indent=2, ensure_ascii=False) if as_json else words)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of texts as aligned columns, the first row being the heads."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ("  ".join(t.ljust(w) for t, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


@contextmanager
def progress_bar(steps: int) -> Iterator[Callable[[str], None]]:
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
def reporting(as_json: bool) -> Iterator[None]:
    """Turn every failure into a message and an exit code; no traceback, no local variable."""
    unexpected = ""
    try:
        yield
    except DpReleaseError as error:
        fail(error, as_json)
    except (typer.Exit, typer.BadParameter, KeyboardInterrupt):
        raise
    except Exception as problem:  # noqa: BLE001 - its text may quote data, so only its type is told
        unexpected = type(problem).__name__
    if unexpected:
        from dprelease.errors import InternalError, State

        check = f"a {unexpected} was not expected here"
        fail(InternalError("DP-INTERNAL-001", state=State.READ, check=check), as_json)


def fail(error: DpReleaseError, as_json: bool) -> NoReturn:
    """Print what is wrong, and end with its exit code."""
    several = list(error.errors) if isinstance(error, Findings) else [error]
    if as_json:
        typer.echo(json.dumps({"ok": False, "findings": [e.to_json() for e in several]}, indent=2))
    else:
        typer.echo(str(error), err=True)
    raise typer.Exit(error.exit_code)
