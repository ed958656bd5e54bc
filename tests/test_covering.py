"""What is left out of a product hides no pair of values; noise is the same in every run."""

from __future__ import annotations

import json
import os
import re
import sys
from itertools import combinations, product
from pathlib import Path

import pytest
from hypothesis import settings

from dprelease.numerics.entropy import Entropy
from tests.covering import cover, spread, thinned
from tests.processes import ended, run
from tests.replay import repeatable

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("together", [1, 2, 3])
@pytest.mark.parametrize("sizes", [(4,), (3, 5), (4, 6, 2), (2, 2, 2, 2), (7, 3, 3, 2)])
def test_all_pairs_of_values_occur(sizes: tuple[int, ...], together: int) -> None:
    cells = list(product(*map(range, sizes)))
    found = cover(cells, together)
    for axes in combinations(range(len(sizes)), together):
        wanted = set(product(*(range(sizes[axis]) for axis in axes)))
        assert {tuple(cell[axis] for axis in axes) for cell in found} == wanted
    is_whole = together >= len(sizes)
    assert len(found) == len(cells) if is_whole else len(found) < len(cells)


def test_audits_have_the_whole_product() -> None:
    cells = thinned("abcd", range(6), [True, False])
    assert [cell.values for cell in cells] == list(product("abcd", range(6), [True, False]))
    assert [bool(cell.marks) for cell in cells].count(False) == 24


HELD = """
import pytest

@pytest.mark.share(0.3)
@pytest.mark.parametrize("i", range(20))
def test_some(i): pass

@pytest.mark.parametrize("i", range(5))
def test_all(i): pass

@pytest.mark.each
@pytest.mark.parametrize("i", range(4))
@pytest.mark.parametrize(("k", "l"), [(0, 1), (2, 3)])
def test_each(i, k, l): pass

@pytest.mark.share(0.01, by="kind")
@pytest.mark.parametrize("kind", range(2))
@pytest.mark.parametrize("i", range(9))
def test_kinds(i, kind): pass
"""


RUNS = """
import json, sys, pytest
for words in json.loads(sys.argv[1]):
    print("start", flush=True)
    pytest.main(["-v", "-p", "no:cacheprovider", *words])
"""
"""One process, for which everything is imported once."""


def test_share_mark_selects_a_part(tmp_path: Path) -> None:
    """Spread evenly, one at least; a case that is named is always run."""
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    (tmp_path / "test_held.py").write_text(HELD)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  share(part)\n  each\n  audit\n")

    def ran(*runs: list[str]) -> list[list[str]]:
        command = [sys.executable, "-c", RUNS, json.dumps(runs)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        _, *outputs = done.stdout.split("start\n")
        return [re.findall(r"::(test_\w+\[[\d-]+\]) PASSED", output) for output in outputs]

    cells = spread([(i,) for i in range(20)])
    kept = [i for i, cell in enumerate(cells) if not cell.marks]
    assert kept[0] == 0
    assert len(kept) < 10
    wanted = [f"test_some[{i}]" for i in kept] + [f"test_all[{i}]" for i in range(5)]
    wanted += [f"test_each[{i % 2 * 2}-{i % 2 * 2 + 1}-{i}]" for i in range(4)]
    wanted += ["test_kinds[0-0]", "test_kinds[0-1]"]
    named = ["-m", "not audit", "test_held.py::test_some[3]"]
    usual, whole, single = ran(["-m", "not audit"], [], named)
    assert sorted(usual) == sorted(wanted)
    assert len(whole) == 25 + 8 + 18
    assert single == ["test_some[3]"]


@pytest.mark.skipif(
    settings.get_current_profile_name() != "dev", reason="other profiles draw their noise anew"
)
def test_noise_of_a_test_is_the_same_in_every_run() -> None:
    """Streams, and those of forked children, differ from each other."""

    def words_of_child() -> bytes:
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(theirs, Entropy().words(2).tobytes())
            os._exit(0)
        os.close(theirs)
        with open(ours, "rb") as pipe:
            assert ended(child) == 0
            return pipe.read()

    found = []
    for _ in range(2):
        repeatable.begin("a test")
        streams = [Entropy().words(2).tobytes() for _ in range(2)]
        found.append([*streams, words_of_child(), words_of_child()])
    assert found[0] == found[1]
    assert len(set(found[0])) == 4
