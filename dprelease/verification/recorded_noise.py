"""Whether the noise that a manifest records is what its declaration asks for, or leaves open."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from dprelease.errors import DpReleaseError, Place
from dprelease.mechanisms import registry
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.planning.noise_requests import NoiseRequest
from dprelease.privacy.event import Event
from dprelease.query.measurement import Measurement
from dprelease.schema.column_spec import DEFAULT_CONFIDENCE

Law = TypeVar("Law", bound=Randomizer)

CHOSEN_SHAPE = "declared; its parameters: least expected error"
WORDS = frozenset(
    {"auto", "error", "errors", "of", "others", "the", "release", "smaller", "than", "with"}
    | {"least", "for", "rho", "epsilon", "that", "ledger", "counts"}
)
"""What `auto` says of its choice, beside numbers, errors and names of mechanisms."""

NUMBER = re.compile(r"[+-]?([0-9.]{1,320}|inf)(e[+-]?[0-9]{1,3})?%?|%")


def recorded_law(held: Mapping[str, Any], law_of: Callable[[Event], Law]) -> Law | None:
    """Return the noise of a recorded measurement; None for a record that is none of ours."""
    try:
        return law_of(Event.from_json(held))
    except DpReleaseError:
        return None


def is_asked_for(law: Randomizer, measurement: Measurement) -> bool:
    """Return whether a column may have this noise: declared, or what `auto` may choose.

    With the declared shape, as far as a law records it, and within a declared margin of error.
    """
    request = NoiseRequest(measurement, Place())
    try:
        if request.is_auto:
            kept = law.name in registry.names() and request.options.admit(type(law))
            kept = kept and math.isfinite(request.options.error(law))
        else:
            kept = law.name == measurement.mechanism.name and _has_shape(law, request)
    except DpReleaseError:
        return False
    return kept and is_accurate(law, measurement)


def _has_shape(law: Randomizer, request: NoiseRequest) -> bool:
    """Return whether the declared shape parameters that a law records are the declared ones."""
    recorded = dict(law.parameters)
    return all(
        math.isclose(float(wanted), float(recorded[name]), rel_tol=1e-12)
        for name, wanted in request.shape.items()
        if name in recorded
    )


def is_accurate(law: Randomizer, measurement: Measurement) -> bool:
    """Return whether a law keeps the margin of error that its column declares, if it does."""
    if measurement.wanted is None:
        return True
    confidence = float(measurement.confidence or DEFAULT_CONFIDENCE)
    return law.half_width(confidence) <= measurement.wanted / measurement.step


def is_chosen_so(words: str, law: Randomizer, measurement: Measurement) -> bool:
    """Return whether `chosen_by` says what the declaration left open.

    Of what `auto` says the errors of other mechanisms are not computed again: that would be a
    second plan, and no guarantee rests on them.
    """
    request = NoiseRequest(measurement, Place())
    if not request.is_auto:
        searched = {name for shape in type(law).search for name in shape}
        is_fixed = searched <= set(measurement.mechanism.shape)
        return words == ("declared" if is_fixed else CHOSEN_SHAPE)
    said = re.sub(r"[;:,]", " ", words).split()
    known = {*WORDS, *registry.names()}
    start = f"auto: least {request.options.measure}"
    is_started = words == start or words.startswith(f"{start};")
    return is_started and all(
        word in known or NUMBER.fullmatch(word) for word in said if word != request.options.measure
    )
