"""`%%dpsql` in IPython: results are frames, and errors of the package have no traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

import dprelease
from tests.ledger.test_ledger import release_with_ledger

COUNT = "SELECT city, COUNT(*) AS n FROM people WHERE age >= $least GROUP BY city ORDER BY city"


@pytest.fixture
def shell(tmp_path: Path) -> Any:
    release_with_ledger(tmp_path)
    rows = [(i, ("Bern", "Oslo", "Rome")[i % 3], 20 + i % 3 * 10, 1.5) for i in range(300)]
    frame = pd.DataFrame(rows, columns=["person", "city", "age", "pay"])
    session = dprelease.Session(tmp_path / "people.yaml", epsilon=60)
    frame.dp.use(session)
    found = InteractiveShell()
    found.user_ns.update(people=frame, session=session, limits={"least": 25})
    found.run_line_magic("load_ext", "dprelease")
    return found


def test_magic_returns_frames(shell: Any) -> None:
    options = "people, epsilon=20, params=limits"
    answer = shell.run_cell_magic("dpsql", options, COUNT)
    assert isinstance(answer, pd.DataFrame)
    assert answer["city"].tolist() == ["Bern", "Oslo", "Rome"]
    assert answer["n"].to_numpy() == pytest.approx([0, 100, 100], abs=10)
    result = shell.run_cell_magic("dpsql", f"answer = {options}, margins=True", COUNT)
    assert result is None
    assert list(shell.user_ns["answer"].columns) == ["city", "n", "n_moe"]
    assert shell.user_ns["session"].spent.epsilon == 40


@pytest.mark.parametrize(
    ("line", "cell", "code"),
    [
        ("people, epsilon=100, params=limits", COUNT, "DP-BUDGET-090"),
        ("people, epsilon=1", COUNT, "DP-SQL-008"),
        ("people, epsilon=1", "SELECT * FROM people", "DP-SQL-005"),
        ("people", "SELECT COUNT(*) FROM people", "DP-SESSION"),
        ("nothing, epsilon=1", COUNT, "DP-SESSION-016"),
        ("limits, epsilon=1", COUNT, "DP-SESSION-016"),
        ("", COUNT, "DP-SESSION-016"),
        ("people epsilon=1", COUNT, "DP-SESSION-016"),
    ],
)
def test_errors_have_no_traceback(
    shell: Any, capsys: pytest.CaptureFixture[str], line: str, cell: str, code: str
) -> None:
    assert shell.run_cell_magic("dpsql", line, cell) is None
    shown = capsys.readouterr().err
    assert code in shown
    assert "Traceback" not in shown
    assert shell.user_ns["session"].spent.epsilon == 0


def test_the_wrong_frame_is_described_and_help_is_that_of_the_magic(
    shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, kind in (("nothing", "an unknown name"), ("session", "a Session"), ("", "this line")):
        shell.run_cell_magic("dpsql", name, COUNT)
        assert f"not {kind}." in capsys.readouterr().err
    magic = shell.find_cell_magic("dpsql")
    assert "SELECT in a cell" in magic.__doc__
