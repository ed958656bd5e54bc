"""Quality codes: limits, reasons of empty cells, labels in all languages."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dprelease.query.quality import (
    BLANKS,
    CODES,
    quality_codes,
    quality_formula,
    quality_labels,
    too_wide,
)
from dprelease.schema.release_parts.limits import QUALITY_LIMITS

LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "pt")


def codes(
    values: list[float], lower: list[float], upper: list[float], **options: object
) -> list[str]:
    """Return the quality codes of these values as texts."""
    arrays = [np.array(numbers, dtype=np.float64) for numbers in (values, lower, upper)]
    return [CODES[code] for code in quality_codes(*arrays, **options)]  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [100.0, -100.0, 1e-9, 0.3, 1e15])
def test_each_limit_is_the_largest_margin_of_its_code(value: float) -> None:
    for limit, code, worse in zip(QUALITY_LIMITS, "ABC", "BCD", strict=True):
        at, above = (float(limit) * abs(value) * more for more in (1.0, 1.0 + 1e-6))
        assert codes([value], [value - at], [value + at]) == [code]
        assert codes([value], [value - above], [value + above]) == [worse]


def test_the_farther_end_decides() -> None:
    assert codes([100] * 2, [99, 80], [120, 101]) == ["C", "C"]


def test_margins_of_zero_and_of_nothing() -> None:
    lower, upper = [0.0, -1.0, math.nan, -math.inf], [0.0, 1.0, math.nan, math.inf]
    assert codes([0.0, 0.0, 5.0, 5.0], lower, upper) == ["A", "D", "D", "D"]


def test_declared_limits() -> None:
    limits = (Fraction(1, 100), Fraction(2, 100), Fraction(1))
    assert codes([100] * 4, [99, 98, 0, -1], [100] * 4, limits=limits) == ["A", "B", "C", "D"]


def test_the_first_reason_of_an_empty_cell_counts() -> None:
    nan, mask = math.nan, np.array
    emptied = {
        "unsure_divisor": mask([True, False, False, False]),
        "few_people": mask([True, True, False, True]),
    }
    found = codes([nan, nan, nan, 9.0], [0.0] * 4, [9.0] * 4, emptied=emptied)
    assert found == ["unsure_divisor", "few_people", "undefined", "D"]


def test_a_bound_makes_a_narrow_value_unreliable() -> None:
    at_bound = np.array([True, False, True])
    assert codes([9.0, 9.0, math.nan], [9.0] * 3, [9.0] * 3, at_bound=at_bound) == [
        "at_bound", "A", "undefined",
    ]  # fmt: skip


def test_a_margin_is_too_wide_above_the_limit_alone() -> None:
    values, lower = np.array([100.0, 100.0, 0.0, 5.0]), np.array([70.0, 69.9, 0.0, math.nan])
    wide = too_wide(values, lower, values, Fraction(30, 100))
    assert wide.tolist() == [False, True, False, True]


def test_every_code_has_a_label_in_every_language() -> None:
    labels = quality_labels(QUALITY_LIMITS, LANGUAGES)
    assert tuple(labels) == CODES
    assert len(BLANKS) == 4
    for code, texts in labels.items():
        assert set(texts) == set(LANGUAGES)
        assert not any("{" in text for text in texts.values())
        assert code == "undefined" or len(set(texts.values())) == len(LANGUAGES)
    assert quality_labels(QUALITY_LIMITS, ["de-CH", "sv"])["B"] == {
        "de-CH": labels["B"]["de"],
        "sv": labels["B"]["en"],
    }


def test_the_manifest_states_the_limits() -> None:
    text = quality_formula("n", QUALITY_LIMITS)
    assert all(f"{share} %" in text for share in (5, 15, 30, 95))
