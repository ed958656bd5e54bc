"""Suggest the intended name: a name with a similar spelling, or a synonym."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

SAME = {
    "mean": ("avg", "average"),
    "stddev": ("std", "sd", "stdev", "stddev_samp"),
    "variance": ("var", "var_samp"),
    "quantile": ("percentile", "quantile_cont", "percentile_cont"),
    "count": ("n", "number", "size"),
    "count_distinct": ("distinct", "unique", "nunique", "n_distinct"),
    "sum": ("total",),
    "mode": ("most_frequent",),
    "lower": ("min", "minimum", "low", "from"),
    "upper": ("max", "maximum", "high", "to"),
    "edges": ("bins", "breaks"),
    "delimiter": ("sep", "separator"),
    "skip": ("skiprows", "skip_rows", "skip_lines"),
    "footer": ("skipfooter", "skip_footer"),
    "comment": ("comments", "comment_char"),
    "escape": ("escapechar", "escape_char"),
    "names": ("column_names", "col_names"),
    "where": ("filter", "condition"),
    "group_by": ("by", "groups", "keys"),
    "columns": ("aggregates", "select", "measures", "fields"),
    "from": ("table", "source"),
    "values": ("levels", "categories", "keys"),
    "privacy_unit": ("unit", "person", "id"),
    "output": ("out", "folder", "path"),
    "path": ("file", "filename"),
    "epsilon": ("eps",),
    "totals": ("margins",),
    "margin": ("confidence", "moe"),
    "integer": ("int", "bigint", "long", "whole"),
    "number": ("float", "double", "decimal", "real", "numeric"),
    "text": ("string", "str", "varchar", "character"),
    "boolean": ("bool", "logical"),
    "category": ("enum", "factor", "categorical"),
    "timestamp": ("datetime", "instant", "time"),
}
"""Names in this project, and their synonyms in other programs."""


SIMILAR = 0.65
"""The minimum similarity of a suggested name: 'titel' is suggested 'title', and 'table' is not."""

LABEL_KEYS = frozenset({"labels", "value_labels", "codes", "code_labels", "codelist"})
"""Keys by which the labels of the values of a category are declared in error."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the text " (did you mean '...'?)" with the closest known name, or an empty text."""
    match = nearest_name(name, known)
    return "" if match is None else f" (did you mean '{match}'?)"


def value_labels_hint(loc: tuple[str | int, ...]) -> str:
    """Return how a category has labels of its values, if a key looks like that of labels."""
    is_of_category = len(loc) >= 4 and loc[-4] == "columns" and loc[-2] == "category"
    if not is_of_category or loc[-1] not in LABEL_KEYS:
        return ""
    return "; labels of the values of a category stand in `values: {code: label}`"


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant: a synonym, or the most similar one."""
    names_by_form = {_normalize(candidate): candidate for candidate in known}
    form = _normalize(name)
    meant = (
        candidate
        for candidate, others in SAME.items()
        if form in others and candidate in names_by_form
    )
    close = get_close_matches(form, names_by_form, n=1, cutoff=SIMILAR)
    return (
        names_by_form.get(form)
        or next(meant, None)
        or next((names_by_form[one] for one in close), None)
    )


def _normalize(name: str) -> str:
    """Return a name in lower case, with underscores in place of spaces and hyphens."""
    return name.strip().casefold().replace("-", "_").replace(" ", "_")
