"""In a notebook, where DuckDB's progress bar needs widgets that are missing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests import processes
from tests.release.build import write

ROOT = Path(__file__).parents[2]

PRETEND = """
import sys, types
shell = types.SimpleNamespace(config={"IPKernelApp": {}})
sys.modules["IPython"] = types.ModuleType("IPython")
sys.modules["IPython"].get_ipython = lambda: shell
sys.modules["ipywidgets"] = None
import duckdb
link = duckdb.connect()
try:
    link.execute("SET enable_progress_bar = false")
except duckdb.InvalidInputException:
    print("as in a notebook")
import dprelease
"""
"""What DuckDB looks for to see that it is in a notebook; it then refuses what is set of progress."""

WAYS = {
    "a release": "dprelease.read_release('release.yaml').run()",
    "a statement": "dprelease.sql('SELECT city, COUNT(*) AS n FROM people GROUP BY city "
    "HAVING n > 1 ORDER BY n', 'people.yaml', epsilon=1)",
    "a session": "import pandas as pd; df = pd.read_csv('people.csv'); "
    "s = dprelease.Session('people.yaml', epsilon=1); df.dp.use(s); "
    "df.dp.count(by='city', epsilon=1)",
}


@pytest.mark.share(0.4)
@pytest.mark.parametrize("way", WAYS)
def test_all_interfaces_work_in_a_notebook(way: str, tmp_path: Path) -> None:
    write(tmp_path)
    done = processes.run(
        [sys.executable, "-c", PRETEND + WAYS[way]],
        cwd=tmp_path,
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "as in a notebook" in done.stdout
