"""What the catalogue of a server proposes for a column: values or bounds, marked; and notes."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dprelease.exact.postgres.server_form import MOST_LABELS, ServerForm
from dprelease.numerics.lattice import LIMIT
from dprelease.numerics.rounding import plain_text
from dprelease.scaffold.server_checks import End, Limits, both, limits_of
from dprelease.scaffold.sketch import quote_yaml
from dprelease.schema.load import CONFIRM

LIST = f"  {CONFIRM}: the list of its type. Is it public knowledge, and whole? Then remove this"
DIGITS = (
    f"  {CONFIRM}: what its type has room for; narrower bounds mean less noise. Then remove this"
)
CHECK = (
    f"  {CONFIRM}: what its CHECK constraint leaves. Is it public knowledge, and not from the "
    "data? Then remove this"
)


def proposal_of(form: ServerForm, name: str) -> str:
    """Return a list of values, or bounds, of a column; empty where the catalogue has neither."""
    limits, labels = _limits(form, name), form.labels.get(name)
    if limits.values is not None:
        values = [one for one in limits.values if labels is None or one in labels]
        return _category(values, CHECK)
    if labels:
        return _category(labels, LIST)
    return _between(form, name, limits)


def notes_of(form: ServerForm, name: str) -> str:
    """Return what else the catalogue says of a column: one end of its bounds, or NOT NULL."""
    limits = Limits() if proposal_of(form, name) else _limits(form, name)
    ends = {"lower": limits.lower, "upper": limits.upper}
    said = [f"{key}: {_bound_text(end)}" for key, end in ends.items() if end is not None]
    notes = [f"its CHECK constraint leaves {said[0]}"] if len(said) == 1 else []
    return "; ".join([*notes, *["NOT NULL"] * (name in form.required)])


def _limits(form: ServerForm, name: str) -> Limits:
    is_enum = name in form.labels
    return limits_of(form.checks.get(name, ()), form.columns[name], is_enum=is_enum)


def _category(values: Sequence[str], mark: str) -> str:
    if not 0 < len(values) <= MOST_LABELS:
        return ""
    return f"{{type: category, values: [{', '.join(map(quote_yaml, values))}]}}{mark}"


def _between(form: ServerForm, name: str, limits: Limits) -> str:
    """Return the bounds that checks and digits leave together, if both ends are known."""
    step, largest = form.digits.get(name, (None, None))
    if largest is not None:
        limits = both(limits, Limits(-largest, largest))
    ends = limits.ends
    if ends is None or (step is not None and _size(*ends) / step > LIMIT):
        return ""
    low, high = map(_bound_text, ends)
    by = "" if step is None else f", step: {plain_text(step)}"
    mark = DIGITS if largest is not None and ends == (-largest, largest) else CHECK
    return f"{{type: {form.columns[name]}, lower: {low}, upper: {high}{by}}}{mark}"


def _size(*ends: End) -> Fraction:
    return max(abs(end) for end in ends if isinstance(end, Fraction))


def _bound_text(end: End) -> str:
    return plain_text(end) if isinstance(end, Fraction) else end.isoformat()
