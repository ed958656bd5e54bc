"""Selections and private keys stay below their claim; planted faults exceed it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dprelease.auditing.black_box.drawn_answers import ChoicesInCells, SelectedKeys, Source
from dprelease.auditing.black_box.noise_questions import CHOICES
from dprelease.auditing.black_box.proven_bounds import QuestionResult
from dprelease.exact.results.true_table import Profile
from dprelease.mechanisms.partition_selection import PartitionSelection
from dprelease.noise import noised_answers, selections
from dprelease.planning.plan import PlannedColumn
from tests.auditing.black_box.build import bounds_of, is_refuted, plan_query, with_scale

DRAWS = 40_000

# Choices: one of a few values, quantiles, quantiles of a tree.


def profile(*held: list[int]) -> Profile:
    """Return how often each value occurs in each cell."""
    pairs = [np.unique(np.array(values, dtype=np.int64), return_counts=True) for values in held]
    at = [np.full(len(values), i) for i, (values, _) in enumerate(pairs)]
    return Profile.of(
        np.concatenate(at).astype(np.int64),
        np.concatenate([values for values, _ in pairs]),
        np.concatenate([counts for _, counts in pairs]).astype(np.int64),
        len(held),
    )


CHOICES_ASKED: dict[str, tuple[dict[str, Any], list[int], list[int]]] = {
    "mode": ({"mode": "c"}, [0, 0, 1, 1], [0, 0, 1]),
    "exponential": ({"mode": "c", "mechanism": "exponential"}, [0, 0, 1, 1], [0, 0, 1]),
    "top": ({"top_k": "c", "k": 2}, [0, 0, 1, 1], [0, 0, 1]),
    "median": ({"median": "n"}, [1, 1, 1, 7, 7, 7], [1, 1, 1, 7, 7]),
    "largest": ({"max": "n"}, [1, 1, 1, 8], [1, 1, 1]),
}
QUANTILES = {f"q{i}": {"quantile": {"of": "n", "at": f"0.{i}"}} for i in range(1, 10)}


def choice(name: str) -> tuple[tuple[PlannedColumn, ...], ChoicesInCells]:
    asked, one, other = CHOICES_ASKED.get(name, (None, [8], []))
    _, columns = plan_query(QUANTILES if asked is None else {"x": asked}, epsilon="2")
    held = [c for c in columns if c.measurement.is_choice]
    sides = [{c.measurement.name: profile(rows) for c in held} for rows in (one, other)]
    return tuple(held), ChoicesInCells(tuple(held), (0,), (sides[0], sides[1]))


def bounds_of_choices(
    columns: tuple[PlannedColumn, ...], source: Source, key: str, draws: int = 10_000
) -> list[QuestionResult]:
    return bounds_of(source, columns, "0", draws, key, CHOICES)


@pytest.mark.share(0.2)
@pytest.mark.parametrize("name", [*CHOICES_ASKED, "tree"])
def test_sound_choices_hold_and_too_sure_ones_are_found(name: str) -> None:
    columns, source = choice(name)
    # One row more hardly changes the probabilities of medians: 10,000 draws show no difference.
    sound = bounds_of_choices(columns, source, name, DRAWS if name == "median" else 10_000)
    assert not is_refuted(sound)
    least = {"median": 0.02, "largest": 0}.get(name, 0.05)
    assert sound[0].epsilon >= least * sound[0].claimed
    sure = tuple(with_scale(column, 0.1) for column in columns)
    wrong = ChoicesInCells(sure, source.cells, source.sides)
    assert is_refuted(bounds_of_choices(columns, wrong, name))


def test_missing_noise_between_halves_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise between the halves, the larger one is revealed."""
    columns, _ = choice("tree")
    asked = {c.measurement.name: profile([0, 8, 8]) for c in columns}
    other = {c.measurement.name: profile([0, 8]) for c in columns}
    source = ChoicesInCells(columns, (0,), (asked, other))
    assert not is_refuted(bounds_of_choices(columns, source, "tree"))
    monkeypatch.setattr(selections, "sample", lambda law, n, bits: np.full(n, 3))
    assert is_refuted(bounds_of_choices(columns, source, "tree"))


# Keys that are not public.


def keys(mechanism: str | None) -> PlannedColumn:
    private = True if mechanism is None else {"mechanism": mechanism}
    _, columns = plan_query({"n": {"count": "*"}}, delta="0.001", private_keys=private)
    (column,) = (c for c in columns if c.measurement.name == "private_keys")
    return column


def key_bounds(
    column: PlannedColumn, one: list[int], other: list[int], drawn: PlannedColumn | None = None
) -> list[QuestionResult]:
    """Return bounds from selected keys for a column, drawn like the column `drawn` if given."""
    source = SelectedKeys(drawn or column, (np.array(one), np.array(other)))
    return bounds_of(source, [column], "0.001", DRAWS, "keys", CHOICES)


@pytest.mark.parametrize("mechanism", [None, "truncated_laplace"])
def test_sound_selections_are_not_accused(mechanism: str | None) -> None:
    column = keys(mechanism)
    for units in (1, 6, 40):
        assert not is_refuted(key_bounds(column, [units, 30], [units - 1, 30]))


def test_keys_published_too_early_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    bounded = keys("truncated_laplace")
    least = noised_answers.key_threshold(bounded.mechanism)  # type: ignore[arg-type]
    monkeypatch.setattr(noised_answers, "key_threshold", lambda law: least - 5)
    assert is_refuted(key_bounds(bounded, [1, 30], [0, 30]))
    optimal = keys(None)
    early = replace(optimal, mechanism=replace(optimal.mechanism, delta=0.02))
    assert isinstance(early.mechanism, PartitionSelection)
    assert is_refuted(key_bounds(optimal, [1, 30], [0, 30], early))
    monkeypatch.setattr(PartitionSelection, "select", lambda _law, units, _bits: units > 20)
    assert is_refuted(key_bounds(optimal, [21, 30], [20, 30]))
