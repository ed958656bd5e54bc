"""Which step a declared query asks for: the one list of them."""

from __future__ import annotations

from collections.abc import Callable

from dprelease.postprocess.families import FamilyStep
from dprelease.schema.release import QuerySpec

Asked = Callable[[str, QuerySpec], FamilyStep | None]


def consistent(name: str, spec: QuerySpec) -> FamilyStep | None:
    """Return the step to tables that agree; what makes it is loaded where it is asked for."""
    if spec.consistent is None:
        return None
    from dprelease.postprocess.consistent.step import make_step

    return make_step(name, spec)


FAMILY_STEPS: list[Asked] = [consistent]
"""For each kind of step: what a query, by its name and as it is declared, asks for; else None."""


def step_of(name: str, spec: QuerySpec) -> FamilyStep | None:
    """Return the step that a declared query asks for, the first of the list; None for most."""
    return next((step for asked in FAMILY_STEPS if (step := asked(name, spec)) is not None), None)
