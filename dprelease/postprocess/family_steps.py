"""The list of post-processing steps for families, and the selection of one for a query."""

from __future__ import annotations

from collections.abc import Callable

from dprelease.postprocess.families import FamilyStep
from dprelease.schema.release import QuerySpec

Asked = Callable[[str, QuerySpec], FamilyStep | None]


def consistent(name: str, spec: QuerySpec) -> FamilyStep | None:
    """Return the step for consistent tables, whose module is loaded at first use."""
    if spec.consistent is None:
        return None
    from dprelease.postprocess.consistent.step import make_step

    return make_step(name, spec)


FAMILY_STEPS: list[Asked] = [consistent]
"""For each kind of step, a function from name and declaration of a query to the step or None."""


def step_of(name: str, spec: QuerySpec) -> FamilyStep | None:
    """Return the step that a query declares, the first of the list; None for most queries."""
    return next((step for asked in FAMILY_STEPS if (step := asked(name, spec)) is not None), None)
