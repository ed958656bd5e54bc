"""Labels of the values of keys, declared with the values or in further columns of their file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from dprelease.schema.field_types import refuse, to_text
from dprelease.schema.localized_text import (
    EVERY,
    Label,
    LocalizedText,
    display_problem,
    labels_of_values,
)
from dprelease.schema.localized_text import LONGEST_LABEL as LONGEST
from dprelease.schema.model import shorten

NAMED = 5
"""Maximum number of values that a message lists."""

MANY = 1 << 16
"""The number of values above which a Python set of all values would take too much memory."""

Listed = dict[str, Label | None]
"""The values in order, each with its label if it has one."""


def to_listed(value: object) -> object:
    """Return a mapping without labels from a list of values; DP-SCHEMA-003 for duplicates."""
    if not isinstance(value, list | tuple):
        return value
    listed = [to_text(item) for item in value]
    if listed:
        refuse_duplicates(listed, key="labels")
    return dict.fromkeys(listed)


def refuse_duplicates(values: Sequence[str], **key: str) -> None:
    """Raise DP-SCHEMA-003 for an empty list of values, or for duplicates."""
    if values and all_differ(values):
        return
    again = [f"'{shorten(value)}'" for value, number in Counter(values).items() if number > 1]
    if values and not again:
        return
    named = ", ".join(again[:NAMED]) + f" and {len(again) - NAMED} more" * (len(again) > NAMED)
    problem = f"has {named} twice" if again else "is empty"
    refuse("DP-SCHEMA-003", column="this column", problem=problem, **key)


def all_differ(values: Sequence[str]) -> bool:
    """Return whether all values differ; for very many values, the result False may be wrong.

    For many values, the function compares hashes of 8 bytes each; a set takes 70 bytes per value.
    """
    if len(values) < MANY:
        return len(set(values)) == len(values)
    # Imported late: most declarations have few values, and need no NumPy.
    import numpy as np

    hashes = np.fromiter(map(hash, values), np.int64, len(values))
    hashes.sort()
    return not bool((hashes[1:] == hashes[:-1]).any())


def labels_of_values_file(values: object, within: Sequence[str]) -> dict[str, LocalizedText]:
    """Return the labels that are declared with the values of a category; none for plain lists.

    Raises PydanticCustomError: DP-LABEL-001 or 004, at the value; DP-DECL-003 for values by area
    without `within`.
    """
    if not isinstance(values, Mapping):
        return {}
    if not within:
        if values and all(isinstance(label, list | tuple) for label in values.values()):
            problem = "lists of values by area need `within`, the category of these areas"
            refuse("DP-DECL-003", problem=problem, key="values")
        return dict(labels_of_values(values, "values"))
    found: dict[str, LocalizedText] = {}
    for area, parts in values.items():
        if isinstance(parts, Mapping):
            found |= labels_of_values(parts, "values", str(area))
    return found


def labels_of_rows(
    columns: LocalizedText, rows: Iterable[Sequence[str]], first: int
) -> dict[str, LocalizedText]:
    """Return the labels of the values in a file, which are the first cells of its rows.

    `columns` are the columns of labels, by language; their cells start at index `first` of a row. A
    value without any text has no label.

    Raises PydanticCustomError: DP-LABEL-001 for a text that can't be displayed, 002 for one that
    lacks a language.
    """
    tags = list(columns.by_language)
    labels: dict[str, LocalizedText] = {}
    for row in rows:
        texts = {tag: cell.strip() for tag, cell in zip(tags, row[first:], strict=True)}
        if not any(texts.values()):
            continue
        for tag, text in texts.items():
            _check_label(row[0], tag, text, tags)
        labels[row[0]] = LocalizedText(texts)
    return labels


def _check_label(value: str, tag: str, text: str, tags: Sequence[str]) -> None:
    """Raise DP-LABEL-001 or 002 for a label that can't be displayed, or is missing."""
    problem = display_problem(text, LONGEST)
    if problem is None:
        return
    of_value = f"of the label of '{shorten(value)}'"
    if text or tag == EVERY:
        refuse("DP-LABEL-001", key="values_from", problem=f"{of_value}, {problem}")
    problem = f"'{shorten(value)}' has no label in '{tag}'"
    refuse("DP-LABEL-002", key="values_from", problem=problem, known=", ".join(tags))


def refuse_unknown_labels(
    labels: Iterable[str], is_known: Callable[[str], bool], known: str
) -> None:
    """Raise DP-LABEL-003 for a label of an unknown value."""
    for value in labels:
        if not is_known(value):
            shown = shorten(value)
            refuse("DP-LABEL-003", spot=("labels", value), value=shown, known=known)
