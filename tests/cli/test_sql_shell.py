"""`dprelease sql` without a statement: one budget, a terminal, and statements from a file."""

from __future__ import annotations

import io
import json
import re
import stat
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from typer.testing import CliRunner

from dprelease import cli
from dprelease.cli.sql_prompt import Names, prompt_reader
from dprelease.cli.sql_shell import Shell, run_in_terminal, statements_of
from dprelease.errors import BudgetError, DpReleaseError, Place, QueryError, RunState
from dprelease.schema.load import read_table
from dprelease.schema.table import Table
from tests.release.build import write

COUNT = "SELECT COUNT(*) AS n FROM people;\n"


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    write(tmp_path, [f"{i},Bern,{i % 80},1.5\n" for i in range(150)])
    return tmp_path / "people.yaml"


@pytest.fixture
def keyboard() -> Iterator[PipeInput]:
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        yield keys


def _tables(schema: Path) -> dict[str, Table]:
    return {"people": read_table(schema).table}


@pytest.mark.parametrize(
    ("lines", "code", "answers", "left"),
    [
        (COUNT, 0, 1, "epsilon 1 of 2 remains"),
        (COUNT.strip(";\n"), 0, 1, "epsilon 1 of 2 remains"),
        ("SELECT city,\n COUNT(*)\nFROM people GROUP BY 1;\n" + COUNT, 0, 2, "epsilon 0 of 2"),
        (COUNT * 3, 3, 2, "DP-BUDGET-090"),
        (COUNT + "SELECT no FROM people;\n" + COUNT, 2, 1, "DP-SQL-005"),
        (COUNT + "\\q\n" + COUNT, 0, 1, "epsilon 1 of 2 remains"),
        ("\\budget\n\\tables\n\\what\n;\n", 0, 0, "epsilon 2 of 2 remains"),
        ("EXPLAIN " + COUNT + "\\plan " + COUNT, 0, 0, "epsilon 2 of 2 remains"),
        ("", 0, 0, ""),
    ],
)
def test_statements_from_a_file(
    schema: Path, lines: str, code: int, answers: int, left: str
) -> None:
    options = ["--schema", str(schema), "--epsilon", "1", "--total", "2", "--json"]
    result = CliRunner().invoke(cli.app, ["sql", *options], input=lines)
    assert result.exit_code == code
    documents = re.split(r"^(?=\{)", result.stdout, flags=re.MULTILINE)[1:]
    found = [json.loads(text).get("rows", [{"mechanism": ""}]) for text in documents]
    assert len([rows for rows in found if "mechanism" not in rows[0]]) == answers
    assert left in result.output


@pytest.mark.parametrize(
    "options",
    [[], ["SELECT 1", "--total", "2"], ["--total", "x"], ["--total", "2", "--output", "out"]],
)
def test_incompatible_options_are_refused(schema: Path, options: list[str]) -> None:
    line = ["sql", "--schema", str(schema), "--epsilon", "1", *options]
    assert CliRunner().invoke(cli.app, line, input=COUNT).exit_code == 2


def test_failures_after_reading_are_charged() -> None:
    def answer(text: str, state: RunState) -> None:
        state.rows = "rows" in text
        if "fail" in text:
            raise QueryError("DP-SQL-002", place=Place(key="sql"), what="x")
        if "stop" in text:
            raise KeyboardInterrupt

    shell = Shell({}, Fraction(1), Fraction(0), Fraction(3), answer, lambda _: None)
    for text, spent in (("ok", 1), ("fail", 1), ("stop", 1), ("fail rows", 2), ("stop rows", 3)):
        if text == "ok":
            assert shell.run(text)
        else:
            with pytest.raises((QueryError, KeyboardInterrupt)):
                shell.run(text)
        assert shell.spent == spent
    with pytest.raises(BudgetError, match="DP-BUDGET-090"):
        shell.run("ok")
    assert shell.run("EXPLAIN ok")


def test_interactive_shell(schema: Path, keyboard: PipeInput, tmp_path: Path) -> None:
    """Enter ends only whole statements, errors and Ctrl-C go on, and Ctrl-D ends the shell."""
    answered: list[str] = []
    errors: list[DpReleaseError] = []

    def answer(text: str, state: RunState) -> None:
        answered.append(text)
        if "fail" in text:
            raise QueryError("DP-SQL-002", place=Place(key="sql"), what="x")

    shell = Shell(_tables(schema), Fraction(1), Fraction(0), Fraction(9), answer, answered.append)
    history = tmp_path / "history"
    keyboard.send_text("SELECT 1,\r2;\rfail;\rabc\x03\\budget\rSELECT 3;\r\x04never;\r")
    run_in_terminal(shell, prompt_reader(shell.tables, history), errors.append)
    assert [text for text in answered if ";" not in text and "epsilon" not in text] == [
        "SELECT 1,\n2",
        "fail",
        "SELECT 3",
    ]
    assert [error.code for error in errors] == ["DP-SQL-002"]
    assert any(text.startswith("Interrupted.") for text in answered)
    assert shell.spent == 2
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert "SELECT 3;" in history.read_text()


def test_no_history_is_written_by_default(
    schema: Path, keyboard: PipeInput, tmp_path: Path
) -> None:
    before = {*tmp_path.iterdir()}
    keyboard.send_text("SELECT 1;\r")
    assert prompt_reader(_tables(schema), None)() == "SELECT 1;"
    assert {*tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("begin", "word", "meaning"),
    [
        ("SELECT CI", "city", "key"),
        ("SELECT ag", "age", "integer"),
        ("SELECT * FROM PEO", "people", "table"),
        ("SELECT med", "MEDIAN", "function"),
        ("\\pl", "\\plan", "command"),
    ],
)
def test_completions(schema: Path, begin: str, word: str, meaning: str) -> None:
    found = Names(_tables(schema)).get_completions(Document(begin), CompleteEvent())
    meanings = {one.text: one.display_meta_text for one in found}
    assert meaning in meanings[word]


def test_statements_end_at_semicolons() -> None:
    lines = "a;\nb\n;\n\n\\budget\n\\plan c\n;\nd"
    found = [(at, text.strip()) for at, text in statements_of(io.StringIO(lines)) if text.strip()]
    assert found == [(1, "a;"), (2, "b\n;"), (5, "\\budget"), (6, "\\plan c\n;"), (8, "d")]


def test_a_file_that_stops_shows_the_line_and_what_is_spent(schema: Path) -> None:
    options = ["--schema", str(schema), "--epsilon", "1", "--total", "2"]
    lines = f"{COUNT}\nSELECT city,\n SUM(none) FROM people GROUP BY city;\n{COUNT}"
    result = CliRunner().invoke(cli.app, ["sql", *options], input=lines)
    assert "line 3 on. epsilon 1 of 2 remains" in result.stderr
