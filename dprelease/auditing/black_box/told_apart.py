"""By which statistics the answers to a question are looked at."""

from __future__ import annotations

from collections.abc import Iterator

from dprelease.auditing.black_box.asked_of_noise import CHOICES, REPETITION, Question
from dprelease.auditing.black_box.trained_scores import (
    Repeated,
    Residue,
    Single,
    additive,
    common_step,
    linear,
    together,
)
from dprelease.auditing.black_box.tried_events import MOST_VALUES, Statistic
from dprelease.numerics.lattice import Integers

MOST_SINGLE = 8
"""Numbers of an answer that are looked at one by one."""

POWER = 256
"""Noise that was made by floats is a multiple of some power of two, where it is large."""


def statistics(question: Question, one: Integers, other: Integers) -> Iterator[Statistic]:
    """Yield the statistics of a question, trained on (features, n) answers of both tables."""
    moved, numbers = question.moved, question.numbers
    if question.style == REPETITION:
        yield Repeated.from_answers(moved, one, other)
    elif question.style == CHOICES:
        for place in moved[:MOST_SINGLE].tolist():
            yield Single(place, "choice")
        as_one = together(moved, one, other, MOST_VALUES)
        if len(moved) > 1 and as_one is not None:
            yield as_one
    else:
        for place in moved[:MOST_SINGLE].tolist():
            yield Single(place)
            for modulus in {POWER, *_steps(place, one, other)}:
                yield Residue(place, modulus)
    if len(moved) > 1:
        yield linear(moved, one, other)
        yield additive(moved, one, other)
        yield additive(moved, one, other, moved=True)
    if len(numbers) > len(moved):
        yield linear(numbers, one, other)
        yield additive(numbers, one, other)


def _steps(place: int, one: Integers, other: Integers) -> Iterator[int]:
    """Yield moduli by which one table's numbers all leave the same; 1 for what is not whole."""
    if one.dtype.kind != "i":
        yield 1
        return
    for drawn in (one, other):
        step = common_step(place, drawn)
        if step > 1:
            yield step
