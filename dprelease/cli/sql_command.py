"""`dprelease sql`: answer SQL statements from the command line."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dprelease.cli.reporting import AsJson, print_result, report_failures
from dprelease.cli.signing import Key, PassphraseFile, key_of
from dprelease.cli.texts.frame_output import value_text
from dprelease.cli.texts.text_tables import table_or_records, table_text
from dprelease.errors import Place, QueryError, RunState
from dprelease.errors.printable import one_line, printable

if TYPE_CHECKING:
    import pandas as pd


def _json_value(value: object) -> object:
    """Return a value as JSON has it: days as texts, decimals as numbers, infinity as null."""
    if isinstance(value, date):
        return value.isoformat()
    number = float(value) if isinstance(value, Decimal) else value
    return None if isinstance(number, float) and not math.isfinite(number) else number


def answer_text(answer: pd.DataFrame) -> str:
    """Return an answer as a table, with right-aligned numbers that have all their digits.

    If HAVING or LIMIT removed all rows, the text says so.
    """
    heads = [str(name) for name in answer.columns]
    rows = list(answer.itertuples(index=False, name=None))
    numbers = [head for i, head in enumerate(heads) if all(_is_number(row[i]) for row in rows)]
    text = table_text(
        [heads, *([_value_text(value) for value in row] for row in rows)], right=numbers
    )
    return text if rows else f"{text}\n(the result has no rows)"


def plan_text(plan: pd.DataFrame) -> str:
    """Return the plan of EXPLAIN as a table, or in a narrow terminal as a record per column."""
    heads = [str(name) for name in plan.columns]
    rows = [[value_text(value) for value in row] for row in plan.itertuples(index=False, name=None)]
    numbers = ("cells", "mean_error", "margin", "cost_alone")
    title = 2 if heads[0] == "table" else 1
    return table_or_records([heads, *rows], title=title, right=numbers)


def _is_number(value: object) -> bool:
    """Return whether a value is a number and not a boolean."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _value_text(value: object) -> str:
    """Return a value as text; a float has up to 15 significant digits."""
    if value is None or str(value) in ("nan", "NaT", "<NA>"):
        return "NULL"
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def parameters_of(options: Sequence[str]) -> dict[str, object]:
    """Return the values of the options NAME=VALUE, by name.

    Raises QueryError: DP-SQL-008 for an option without `=`, or a second value for the same name.
    """
    found: dict[str, object] = {}
    for option in options:
        name, equals, text = option.partition("=")
        if not name or not equals or name in found:
            what = "is not NAME=VALUE" if name not in found else f"is a second value of {name}"
            problem, known = f"'{option[:60]}' {what}", "as in --param min=18"
            raise QueryError("DP-SQL-008", place=Place(key="sql"), problem=problem, known=known)
        found[name] = parameter_value(text)
    return found


def parameter_value(text: str) -> object:
    """Return a value as SQL would read it: a number, a date, a truth value, NULL, or a text.

    A number with leading zeros, such as a postcode, is a text, and so is all in single quotes.
    """
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    known = {"true": True, "false": False, "null": None}
    if text.lower() in known:
        return known[text.lower()]
    if re.fullmatch(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?", text, re.ASCII):
        return Decimal(text) if "." in text else int(text)
    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text, re.ASCII):
        with suppress(ValueError):
            return date.fromisoformat(text)
    return text


def ask(
    schema: Annotated[
        list[Path], typer.Option(help="A table schema; can be repeated for several tables.")
    ],
    epsilon: Annotated[
        str, typer.Option(metavar="NUMBER", help="The budget of each result.", show_default=False)
    ],
    statement: Annotated[
        str | None,
        typer.Argument(
            help="One SELECT; without it, statements are read from the terminal or from standard "
            "input.",
            show_default=False,
        ),
    ] = None,
    delta: Annotated[str, typer.Option(metavar="NUMBER", help="0 for a pure guarantee.")] = "0",
    neighbours: Annotated[str, typer.Option(help="add_remove or replace.")] = "add_remove",
    mechanism: Annotated[str, typer.Option(help="The name of a mechanism.")] = "auto",
    ledger: Annotated[Path | None, typer.Option(help="A ledger to charge.")] = None,
    private_keys: Annotated[
        list[str] | None,
        typer.Option(help="A column of GROUP BY without public values; can be repeated."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Publish the table with noise and its manifest in this folder."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the release that is already there.")
    ] = False,
    param: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="The value of a parameter $NAME of the statement, or of the first ? as 1=VALUE: a "
            "number, a date, true, false, null, or a text, which may be in single quotes; can be "
            "repeated.",
        ),
    ] = None,
    margins: Annotated[
        bool,
        typer.Option(
            "--margins", help="Show the margins of error of aggregates, and of arithmetic on them."
        ),
    ] = False,
    total: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER",
            help="The epsilon of all results together, if no statement is an argument.",
            show_default=False,
        ),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(
            help="A file that holds the statements entered at a terminal; without it, they are "
            "forgotten at the end."
        ),
    ] = None,
    key: Key = None,
    passphrase_file: PassphraseFile = None,
    as_json: AsJson = False,
) -> None:
    """Answer one SELECT statement over a declared table with noise, or several from one budget."""
    if (statement is None) == (total is None):
        raise typer.BadParameter("Give one statement, or else --total for several statements.")
    if statement is None and (output is not None or param):
        raise typer.BadParameter("--output and --param are for one statement.")
    with report_failures(as_json) as state:
        options: dict[str, Any] = {
            "epsilon": epsilon,
            "delta": delta,
            "neighbours": neighbours,
            "mechanism": mechanism,
            "ledger": ledger,
            "key": key_of(key, passphrase_file),
            "private_keys": private_keys or (),
            "output": output,
            "overwrite": overwrite,
            "params": parameters_of(param or ()),
            "margins": margins,
        }

        def answer(text: str, state: RunState) -> bool:
            """Answer a statement, and print the answer; return whether it cost nothing."""
            return _print_answer(text, schema, options, state, as_json=as_json)

        if statement is None:
            _run_shell(schema, epsilon, delta, str(total), history, answer, as_json=as_json)
        else:
            answer(statement, state)


def _run_shell(
    schema: list[Path],
    epsilon: str,
    delta: str,
    total: str,
    history: Path | None,
    answer: Callable[[str, RunState], bool],
    *,
    as_json: bool,
) -> None:
    """Answer the statements of a terminal, or of standard input up to the first error."""
    from dprelease.cli.sql_shell import Shell, run_in_terminal, run_lines, statements_of
    from dprelease.planning.guarantees import budget_number
    from dprelease.schema.load import read_table

    numbers = []
    for what, text in (("epsilon", epsilon), ("delta", delta), ("total", total)):
        number = budget_number(what, text)
        if number is None:
            raise typer.BadParameter(f"--{what} is '{text}', and not a budget.")
        numbers.append(number)
    cost, cost_delta, limit = numbers
    tables = {table.name: table for table in (read_table(path).table for path in schema)}
    is_terminal = sys.stdin is not None and sys.stdin.isatty()
    to_errors = as_json or not is_terminal

    def show(text: str) -> None:
        """Print a text that is no result."""
        typer.echo(printable(text), err=to_errors)

    shell = Shell(tables, cost, cost_delta, limit, answer, show)
    if not is_terminal:
        run_lines(shell, sys.stdin)
        return
    try:
        from dprelease.cli.sql_prompt import prompt_reader

        read = prompt_reader(tables, history)
    except ImportError:
        show("Install dprelease[shell] for history and completion.")
        read = partial(next, (text for _, text in statements_of(sys.stdin)), "\\q")
    run_in_terminal(shell, read, lambda error: typer.echo(printable(str(error)), err=True))


def _print_answer(
    statement: str, schema: list[Path], options: dict[str, Any], state: RunState, *, as_json: bool
) -> bool:
    """Answer one statement, and print the answer; return whether it lists declared keys only."""
    from dprelease.release.question import sql, without_explain

    is_explained = without_explain(statement)[1]
    answer = sql(statement, schema, state=state, **options)
    details = answer.attrs["dprelease"]
    guarantee = details["guarantee"]
    errors = ", ".join(f"{name} {moe:,.6g}" for name, moe in details["margins_95"].items())
    price = ", ".join(f"{name} {float(guarantee[name]):.6g}" for name in ("epsilon", "delta"))
    words = f"{price}; margins of error at 95 %: {one_line(errors)}" if errors else price
    tables = [f"'{name}' is public data" for name in details.get("public_tables", ())]
    tables += [f"'{name}' has declared values" for name in details.get("declared_keys", ())]
    shown = plan_text(answer) if is_explained else answer_text(answer)
    words = "\n\n".join([shown, words, *details["bounded_rows"], *tables])
    # As objects, because a column of floats would turn None into NaN, which JSON does not have.
    known = answer.astype(object).where(answer.notna(), None).to_dict("records")
    rows = [{str(name): _json_value(value) for name, value in row.items()} for row in known]
    if options["output"] is None:
        state.released = None  # a reader may see a part of the output before the rest fails
    print_result(as_json, {"rows": rows, **details}, words)
    return not state.rows and details["guarantee"]["epsilon"] == "0"
