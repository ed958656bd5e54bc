"""Tables of commands are as wide as the terminal and wrapped by words, without loss."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from dprelease import cli
from dprelease.cli.sql_command import answer_text
from dprelease.cli.texts.text_tables import GAP, table_text, terminal_width
from tests import processes
from tests.release.build import RELEASE, SCHEMA, write

ROOT = Path(__file__).parents[2]
LONG = "households_with_children_below_school_age"
TEXTS = st.text(
    st.sampled_from([*"ab_./,-1%é", "漢", " ", " ", "\u0301"]), min_size=0, max_size=30
).map(lambda text: " ".join(text.split()))


@pytest.fixture(autouse=True)
def eighty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@given(
    st.integers(2, 5).flatmap(
        lambda n: st.lists(st.lists(TEXTS, min_size=n, max_size=n), min_size=2, max_size=5)
    ),
    st.integers(24, 100),
)
def test_wrapping_keeps_width_and_letters(rows: list[list[str]], columns: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        told = table_text(rows)
    for line in told.split("\n"):
        cells = sum(2 if c == "漢" else c != "\u0301" for c in line)
        assert cells <= columns
    letters = sorted("".join(text for row in rows for text in row).replace(" ", ""))
    assert sorted(re.sub(r"\s", "", told)) == letters
    assert len(table_text(rows, wide=True).split("\n")) == len(rows)


WRAPPED = """\
column             noise              error  unit
by_state.          discrete_gaussian  8.056  thousand
households                                   dollars
                                             of 2019"""


def test_texts_are_wrapped_before_words_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are cut before words, words at their marks, and numbers last."""
    rows = [
        ["column", "noise", "error", "unit", "cells"],
        ["by_state.households", "discrete_gaussian", "8.056", "thousand dollars of 2019", "1"],
    ]
    monkeypatch.setenv("COLUMNS", "53")
    assert table_text(rows, more=("cells",)) == WRAPPED
    wide = table_text(rows, wide=True, more=("cells",)).split("\n")
    assert [re.split(r"\s{2,}", line) for line in wide] == rows


def central(folder: Path) -> list[str]:
    release = yaml.safe_load(RELEASE)
    columns = {
        f"{LONG}_by_{spec[0]}": {spec[0]: spec[1]}
        for spec in (("count", "*"), ("mean", "pay"), ("median", "pay"), ("variance", "pay"))
    }
    columns[LONG] = {"sum": "pay", "margin": 0.99, "mechanism": "laplace"}
    release["queries"][LONG] = {"from": "people", "group_by": ["city"], "columns": columns}
    (folder / "release.yaml").write_text(yaml.safe_dump(release))
    return ["plan", "release.yaml", "--explain"]


def local(folder: Path) -> list[str]:
    schema = yaml.safe_load(SCHEMA)
    del schema["privacy_unit"]
    schema["columns"]["city"]["fill"] = "Rome"
    schema["columns"][LONG] = {"type": "integer", "lower": 0, "upper": 9, "fill": 0}
    (folder / "people.yaml").write_text(yaml.safe_dump(schema))
    (folder / "people.csv").write_text(f"city,{LONG}\n" + "Bern,3\n" * 9)
    budget = {"epsilon": 1, "neighbours": "replace"}
    release = {"title": "t", "mode": "local", "tables": ["people.yaml"], "budget": budget}
    records = {"people": {"from": "people", "columns": ["city", LONG]}}
    text = yaml.safe_dump({**release, "records": records, "output": "out"})
    (folder / "release.yaml").write_text(text)
    return ["plan", "release.yaml", "--explain"]


def estimate(folder: Path) -> list[str]:
    words = local(folder)[:2]
    assert CliRunner().invoke(cli.app, ["run", *words[1:]]).exit_code == 0
    return ["estimate", "out", "city"]


def federated_release(folder: Path) -> list[str]:
    release = yaml.safe_load(RELEASE)
    asked = {"from": "people", "columns": {LONG: {"count": "*"}, "pay": {"sum": "pay"}}}
    release = {**release, "mechanism": "auto", "queries": {LONG: asked}}
    release["budget"] = {"epsilon": 1}
    text = yaml.safe_dump({**release, "federated": {"parties": 12, "honest": 8}})
    (folder / "release.yaml").write_text(text)
    return ["plan", "release.yaml", "--explain"]


def ledger(folder: Path) -> list[str]:
    words = ["ledger.sqlite", "--table", LONG, "--owner", "statistics-office-of-the-country"]
    opened = CliRunner().invoke(cli.app, ["ledger", "init", *words, "--epsilon", "1"])
    assert opened.exit_code == 0, opened.output
    return ["ledger", "show", "ledger.sqlite"]


def history(folder: Path) -> list[str]:
    ledger(folder)
    return ["ledger", "history", "ledger.sqlite"]


def compare(folder: Path) -> list[str]:
    return ["mechanisms", "compare", "--epsilon", "0.00123", "--delta", "1e-9"]


def statement(folder: Path) -> list[str]:
    columns = ", ".join(f"SUM(pay) AS {LONG}_{i}" for i in range(3))
    words = f"SELECT city, {columns} FROM people GROUP BY city"
    return ["sql", words, "--schema", "people.yaml", "--epsilon", "1"]


ANSWER = """\
city       pay  few
Bern   1234567  True
Oslo     -20.5  False
Rome  0.333333"""


def test_numbers_are_right_aligned() -> None:
    rows = [["city", "pay", "few"], ["Bern", "1234567", "True"], ["Oslo", "-20.5", "False"]]
    assert table_text([*rows, ["Rome", "0.333333", ""]], right=["pay"]) == ANSWER


KINDS = """\
key   n    pay   mean  few    day
b    12  200.5    0.1  True   2024-01-02
a    -1     50  1e+20  False  2024-01-03"""


def test_answers_of_every_type() -> None:
    """Numbers of all types are right-aligned, with all their digits."""
    answer = pd.DataFrame(
        {
            "key": ["b", "a"],
            "n": [12, -1],
            "pay": [Decimal("200.5"), Decimal("50")],
            "mean": [0.1, 1e20],
            "few": [True, False],
            "day": [date(2024, 1, 2), date(2024, 1, 3)],
        }
    )
    assert answer_text(answer) == KINDS
    heads, none = (
        answer_text(answer.iloc[:0]).split("\n")[0],
        answer_text(answer.iloc[:0]).split("\n")[-1],
    )
    assert (heads.split(), none) == (list(answer.columns), "(the result has no rows)")


NO_WIDE = (estimate, statement)
HEADS = (
    "column ",
    "noised vector ",
    "computed ",
    "mechanism ",
    "honest ",
    "table ",
    "entry ",
    "value ",
    "city ",
)


@pytest.mark.share(0.25)
@pytest.mark.parametrize(
    "command", [central, local, estimate, federated_release, ledger, history, compare, statement]
)
def test_tables_of_commands_fit_the_terminal(
    command: Callable[[Path], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every command that prints one; a wide one has each row on a line, and more columns."""
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    words = command(tmp_path)

    def tables(*more: str) -> list[list[str]]:
        done = CliRunner().invoke(cli.app, [*words, *more])
        assert done.exit_code == 0, done.output
        blocks = [block.split("\n") for block in done.stdout.rstrip().split("\n\n")]
        return [lines for lines in blocks if lines[0].startswith(HEADS)]

    narrow = tables()
    assert narrow
    for line in (line for lines in narrow for line in lines):
        assert len(line) <= 80
    if command in NO_WIDE:
        return
    wide = tables("--wide")
    assert any(LONG in line for lines in wide for line in lines) or command is compare
    for lines, few in zip(wide, narrow, strict=True):
        heads = [re.split(r"\s{2,}", head[0].strip()) for head in (lines, few)]
        assert len(heads[0]) >= len(heads[1])
        assert all(len(re.split(rf"{GAP}+", line)) <= len(heads[0]) for line in lines)
    assert max(len(line) for lines in wide for line in lines) > 80


def test_default_width_is_eighty_columns(tmp_path: Path) -> None:
    """Nobody knows how wide the place is into which it is piped, unless $COLUMNS says so."""
    code = "from dprelease.cli.texts.text_tables import terminal_width; print(terminal_width())"
    for told, found in (({}, "80"), ({"COLUMNS": "132"}, "132")):
        environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"} | told
        done = processes.run(
            [sys.executable, "-c", code],
            env=environment | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=True,
        )
        assert done.stdout.strip() == found
    assert terminal_width() == 80
