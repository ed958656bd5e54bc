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
def test_quality_limits_are_inclusive(value: float) -> None:
    for limit, code, worse in zip(QUALITY_LIMITS, "ABC", "BCD", strict=True):
        at, above = (float(limit) * abs(value) * more for more in (1.0, 1.0 + 1e-6))
        assert codes([value], [value - at], [value + at]) == [code]
        assert codes([value], [value - above], [value + above]) == [worse]


def test_wider_end_of_interval_decides() -> None:
    assert codes([100] * 2, [99, 80], [120, 101]) == ["C", "C"]


def test_quality_of_zero_and_missing_margins() -> None:
    lower, upper = [0.0, -1.0, math.nan, -math.inf], [0.0, 1.0, math.nan, math.inf]
    assert codes([0.0, 0.0, 5.0, 5.0], lower, upper) == ["A", "D", "D", "D"]


def test_declared_quality_limits() -> None:
    limits = (Fraction(1, 100), Fraction(2, 100), Fraction(1))
    assert codes([100] * 4, [99, 98, 0, -1], [100] * 4, limits=limits) == ["A", "B", "C", "D"]


def test_first_reason_of_an_empty_cell_counts() -> None:
    nan, mask = math.nan, np.array
    emptied = {
        "unsure_divisor": mask([True, False, False, False]),
        "few_people": mask([True, True, False, True]),
    }
    found = codes([nan, nan, nan, 9.0], [0.0] * 4, [9.0] * 4, emptied=emptied)
    assert found == ["unsure_divisor", "few_people", "undefined", "D"]


def test_value_at_a_bound_is_unreliable() -> None:
    at_bound = np.array([True, False, True])
    assert codes([9.0, 9.0, math.nan], [9.0] * 3, [9.0] * 3, at_bound=at_bound) == [
        "at_bound", "A", "undefined",
    ]  # fmt: skip


def test_margin_at_the_limit_is_accepted() -> None:
    values, lower = np.array([100.0, 100.0, 0.0, 5.0]), np.array([70.0, 69.9, 0.0, math.nan])
    wide = too_wide(values, lower, values, Fraction(30, 100))
    assert wide.tolist() == [False, True, False, True]


def test_quality_codes_have_labels_in_every_language() -> None:
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


def test_manifest_states_quality_limits() -> None:
    text = quality_formula("n", QUALITY_LIMITS)
    assert all(f"{share} %" in text for share in (5, 15, 30, 95))
