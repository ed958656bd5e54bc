"""Releases verify on machines whose matrix products differ in the last bits."""

from __future__ import annotations

import os
import sys

import pytest

import dprelease
from dprelease.verification.manifest_comparison import ROUNDING, differences
from tests.processes import run

RELEASE = """\
title: Stable noise
tables: [people.yaml]
budget: {epsilon: 1, delta: 0}
queries:
  q:
    from: people
    group_by: [city]
    columns:
      rows: {count: "*", mechanism: symmetric_alpha_stable}
      pay: {sum: pay, mechanism: {name: symmetric_alpha_stable, alpha: 1.7}}
output: out
"""
PEOPLE = """\
table: people
source: people.csv
columns:
  city: {type: category, values: [Bern, Oslo]}
  pay: {type: number, lower: 0, upper: 5000, step: 0.5}
"""
CHECK = """\
import sys, dprelease
for folder, rehearsal in zip(sys.argv[1:], (False, True)):
    print([str(found) for found in dprelease.verify(folder, rehearsal=rehearsal).findings])
"""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("stable")
    (folder / "release.yaml").write_text(RELEASE)
    (folder / "people.yaml").write_text(PEOPLE)
    (folder / "people.csv").write_text("city,pay\nBern,3\n")
    rehearsed = dprelease.rehearse(folder / "release.yaml", rows={"people": 50})
    return [str(dprelease.read_release(folder / "release.yaml").run()), str(rehearsed.folder)]


@pytest.mark.parametrize(
    "kind",
    ["Nehalem", *(pytest.param(k, marks=pytest.mark.audit) for k in ("Haswell", "SkylakeX"))],
)
def test_verify_on_other_processors(published: list[str], kind: str) -> None:
    """OpenBLAS uses the kernels of the processor that an environment variable names."""
    environment = {**os.environ, "OPENBLAS_CORETYPE": kind}
    command = [sys.executable, "-c", CHECK, *published]
    done = run(command, env=environment, capture_output=True, text=True)
    assert done.stdout == "[]\n[]\n", done.stdout + done.stderr


def test_numbers_may_differ_by_rounding() -> None:
    near, far = 1.0 + ROUNDING / 2, 1.0 + 2 * ROUNDING
    for held, wanted, same in [
        ({"a": 1.0}, {"a": near}, True),
        ({"a": 1.0}, {"a": far}, False),
        ({"a": 1}, {"a": 1.0}, False),
        ({"epsilon": "1.0"}, {"epsilon": repr(near)}, True),
        ({"epsilon": "1.0"}, {"epsilon": repr(far)}, False),
        ({"epsilon": "1.00"}, {"epsilon": "1.0"}, False),
        ({"epsilon": "inf"}, {"epsilon": "1.0"}, False),
        ({"delta": "1.0"}, {"delta": repr(near)}, False),
        ({"sha256": "1.0"}, {"sha256": repr(near)}, False),
    ]:
        assert (list(differences(held, wanted, "part")) == []) is same, (held, wanted)
