"""Check that the declaration in a manifest allows the noise that the manifest records."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TypeVar

from dprelease.documents.release_manifest import NoiseRecord
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
"""The fixed text of the explanation by `auto`, without numbers, errors and mechanisms."""

NUMBER = re.compile(r"[+-]?([0-9.]{1,320}|inf)(e[+-]?[0-9]{1,3})?%?|%")


def recorded_law(held: NoiseRecord, law_of: Callable[[Event], Law]) -> Law | None:
    """Return the noise mechanism of a recorded measurement; None for an invalid record."""
    try:
        return law_of(held.event)
    except DpReleaseError:
        return None


def is_declared_noise(law: Randomizer, measurement: Measurement) -> bool:
    """Return whether a column may have this noise: the declared one, or one that `auto` may choose.

    The noise must have the declared shape, if its record has a shape, and keep a declared margin of
    error.
    """
    request = NoiseRequest(measurement, Place())
    try:
        if request.is_auto:
            kept = law.name in registry.names() and request.options.admits(type(law))
            kept = kept and math.isfinite(request.options.error(law))
        else:
            kept = law.name == measurement.mechanism.name and _has_shape(law, request)
    except DpReleaseError:
        return False
    return kept and is_accurate(law, measurement)


def _has_shape(law: Randomizer, request: NoiseRequest) -> bool:
    """Return whether recorded shape parameters are equal to the declared ones."""
    recorded = dict(law.parameters)
    return all(
        math.isclose(float(wanted), float(recorded[name]), rel_tol=1e-12)
        for name, wanted in request.shape.items()
        if name in recorded
    )


def is_accurate(law: Randomizer, measurement: Measurement) -> bool:
    """Return whether noise keeps the margin of error that its column declares, if any."""
    if measurement.wanted is None:
        return True
    confidence = float(measurement.confidence or DEFAULT_CONFIDENCE)
    return law.half_width(confidence) <= measurement.wanted / measurement.step


def is_recorded_choice(words: str, law: Randomizer, measurement: Measurement) -> bool:
    """Return whether `chosen_by` is consistent with the declaration.

    The explanation of `auto` also has the errors of other mechanisms. They are not computed again,
    because this would need a second plan, and no guarantee depends on them.
    """
    request = NoiseRequest(measurement, Place())
    if not request.is_auto:
        searched = {name for shape in type(law).searched_shapes for name in shape}
        is_fixed = searched <= set(measurement.mechanism.shape)
        return words == ("declared" if is_fixed else CHOSEN_SHAPE)
    said = re.sub(r"[;:,]", " ", words).split()
    known = {*WORDS, *registry.names()}
    start = f"auto: least {request.options.measure}"
    is_started = words == start or words.startswith(f"{start};")
    return is_started and all(
        word in known or NUMBER.fullmatch(word) for word in said if word != request.options.measure
    )
