"""Replace names and codes in answers by their declared labels."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Any, TypeVar

from dprelease.accessor.answer_libraries import in_library, library_of
from dprelease.accessor.frame_notes import ATTRIBUTE, answer_details, set_note
from dprelease.errors import SessionError
from dprelease.errors.argument_types import checked_arguments
from dprelease.schema.localized_text import EVERY

if TYPE_CHECKING:
    import pandas as pd

    Shown = TypeVar("Shown", pd.DataFrame, pd.Series)
else:
    Shown = TypeVar("Shown")

Texts = Mapping[str, str]


@checked_arguments
def labelled(answer: Shown, language: str | None = None) -> Shown:
    """Return an answer with the labels of its schema in place of names and codes.

    Columns, index levels and key values are replaced by their labels; those without a label stay
    unchanged. The numbers stay the same, and the answer itself is not modified. The labels come
    from the attributes of the answer, so it may be sorted, filtered and indexed first (pandas drops
    attributes when it pivots).

    Parameters
    ----------
    answer
        A frame or Series that a query of `df.dp`, or `dprelease.sql`, returned.
    language
        A language in which labels are declared; by default the first one.

    Raises
    ------
    UsageError
        DP-SESSION-016 if it is not an answer.
    SessionError
        DP-SESSION-018 for a language without labels.
    """
    details = answer_details(answer)
    labels: Mapping[str, Mapping[str, Any]] = details.get("labels", {})
    _refuse_unknown_language(labels, language)
    library = library_of(answer)
    if library == "pandas":
        return _label_pandas(answer, labels, language)
    given_answer: Any = answer
    held = given_answer.to_pandas()
    set_note(held, ATTRIBUTE, details)
    converted: Shown = in_library(_label_pandas(held, labels, language), library)
    return converted


def _label_pandas(
    answer: Shown, labels: Mapping[str, Mapping[str, Any]], language: str | None
) -> Shown:
    """Return a pandas answer with its labels."""
    shown: Any = answer.copy()
    shown.index = _label_levels(shown.index, labels, language)
    if getattr(shown, "ndim", 1) == 1:
        shown.name = _column_label(shown.name, labels, language)
    else:
        for place, name in enumerate(shown.columns):
            values = _value_labels(labels, name, language)
            if values:
                shown.isetitem(place, _label_values(shown.iloc[:, place], values))
        shown.columns = _label_columns(shown.columns, labels, language)
    shown.attrs = dict(answer.attrs)
    result: Shown = shown
    return result


def _refuse_unknown_language(labels: Mapping[str, Mapping[str, Any]], language: str | None) -> None:
    """Raise SessionError DP-SESSION-018 for a language in which no label is declared."""
    known: dict[str, None] = {}
    for column_labels in labels.values():
        for texts in (column_labels.get("label", {}), *column_labels.get("values", {}).values()):
            known |= dict.fromkeys(texts)
    if language is not None and language not in known and EVERY not in known:
        listed = ", ".join(tag for tag in known if tag) or "none"
        raise SessionError("DP-SESSION-018", language=language, known=listed)


def _text_in_language(texts: Texts, language: str | None) -> str | None:
    """Return the text in a language or for all languages, or else the first text."""
    for tag in (language, EVERY):
        if tag is not None and tag in texts:
            return texts[tag]
    return next(iter(texts.values()), None)


def _column_label(name: Any, labels: Mapping[str, Mapping[str, Any]], language: str | None) -> Any:
    """Return the label of a column; the name itself if the column has no label."""
    texts = labels.get(name, {}).get("label", {}) if isinstance(name, str) else {}
    return _text_in_language(texts, language) or name


def _value_labels(
    labels: Mapping[str, Mapping[str, Any]], name: Any, language: str | None
) -> dict[str, str]:
    """Return the labels of a key's values; an empty mapping if two values have the same label."""
    texts = labels.get(name, {}).get("values", {}) if isinstance(name, str) else {}
    found = {
        value: _text_in_language(texts_of_value, language) or value
        for value, texts_of_value in texts.items()
    }
    return found if len(set(found.values())) == len(found) else {}


def _label_values(values: Any, labels: Mapping[str, str]) -> Any:
    """Return the values of a key, each replaced by its label if it has one."""
    return values.map(lambda value: labels.get(_code_text(value), value))


def _code_text(value: Any) -> str:
    """Return the text of a key's value in a declaration, under which its label is found."""
    if isinstance(value, date):
        return value.isoformat()
    return str(value).lower() if isinstance(value, bool) else str(value)


def _label_columns(
    columns: Any, labels: Mapping[str, Mapping[str, Any]], language: str | None
) -> Any:
    """Return column labels; each part of a crossed key and of a level is replaced separately."""

    def label_part(one: Any) -> Any:
        """Return the label of one part of a column name."""
        return _column_label(one, labels, language)

    crossed = columns
    if columns.nlevels > 1 or columns.name is not None:
        crossed = _label_levels(columns, labels, language)
    several = crossed.nlevels > 1
    names = crossed.map(lambda one: tuple(map(label_part, one)) if several else label_part(one))
    return names.set_names([label_part(name) for name in columns.names])


def _label_levels(index: Any, labels: Mapping[str, Mapping[str, Any]], language: str | None) -> Any:
    """Return an index whose level names and values are replaced by their labels."""
    names = [_column_label(name, labels, language) for name in index.names]
    if index.nlevels == 1:
        values = _value_labels(labels, index.name, language)
        return (_label_values(index, values) if values else index).rename(names[0])
    levels = [
        _label_values(level, values) if (values := _value_labels(labels, name, language)) else level
        for name, level in zip(index.names, index.levels, strict=True)
    ]
    return index.set_levels(levels).rename(names)
