"""Check that all texts of a release are in its languages, and that tables with texts exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dprelease.errors import DeclarationError, DpReleaseError
from dprelease.errors.suggestions import nearest
from dprelease.schema.columns import CategoryColumn
from dprelease.schema.localized_text import LocalizedText
from dprelease.schema.model import Model, shorten
from dprelease.schema.release import QuerySpec, ReleaseSpec
from dprelease.schema.release_parts.about import UNDETERMINED
from dprelease.schema.table import Table
from dprelease.schema.yaml_text.reader import Document, KeyPath

MOST_FINDINGS = 20
"""Maximum number of errors per document, because a missing language concerns most texts."""


def languages_of(spec: ReleaseSpec) -> tuple[str, ...]:
    """Return the languages of a release's texts; `und` if none is declared."""
    return (UNDETERMINED,) if spec.about is None else spec.about.languages


def findings_of_texts(
    spec: ReleaseSpec, document: Document, tables: Sequence[tuple[Table, Document]]
) -> Iterator[DpReleaseError]:
    """Yield DP-LABEL-002 for texts in other languages, and 003 for texts of unknown tables.

    `tables` has each table schema with its document.
    """
    languages = languages_of(spec)
    for model, document_of_model in ((spec, document), *tables):
        count = 0
        for keys, text in localized_texts_in(model):
            problem = _language_problem(text, languages)
            if problem is not None and count < MOST_FINDINGS:
                count += 1
                yield DeclarationError(
                    "DP-LABEL-002",
                    place=document_of_model.place(*keys),
                    problem=problem,
                    known=", ".join(languages) if languages != (UNDETERMINED,) else "none",
                )
    for name, query in spec.queries.items():
        yield from _unknown_tables(name, query, document)


def _language_problem(text: LocalizedText, languages: Sequence[str]) -> str | None:
    """Return the problem of a text's languages; None if they are the release's languages."""
    if text.languages is None:
        return None
    lacking = [tag for tag in languages if tag not in text.languages]
    beyond = sorted(text.languages - {*languages})
    # A release without `about.languages` lacks every language: the text's own one is the mistake.
    if lacking and lacking != [UNDETERMINED]:
        return f"The text is missing in '{lacking[0]}'"
    return f"The text is in '{beyond[0]}', which is not declared" if beyond else None


def _unknown_tables(name: str, query: QuerySpec, document: Document) -> Iterator[DpReleaseError]:
    """Yield an error for each described table that the query does not publish."""
    known = [*query.tables(name), *query.computed_table_names(name)]
    for table in query.documented_tables:
        if table not in known:
            yield DeclarationError(
                "DP-LABEL-003",
                place=document.place("queries", name, "tables", table),
                value=table,
                known=f"tables of '{name}' are {', '.join(known)}{nearest(table, known)}",
            )


def localized_texts_in(model: Model, keys: KeyPath = ()) -> Iterator[tuple[KeyPath, LocalizedText]]:
    """Yield every localized text of a declared model, with its key path."""
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if value is not None and not isinstance(value, str):  # most values are plain texts
            yield from _localized_texts(value, (*keys, field.alias or name))
    if isinstance(model, CategoryColumn) and model.values_from is None:
        areas = dict(zip(model.values or (), model.parent_areas, strict=False))
        for value, text in model.value_labels.items():
            area = [areas[value]] if value in areas else []
            yield (*keys, "values", *area, value), text


def _localized_texts(value: Any, keys: KeyPath) -> Iterator[tuple[KeyPath, LocalizedText]]:
    if isinstance(value, LocalizedText):
        yield keys, value
    elif isinstance(value, Model):
        yield from localized_texts_in(value, keys)
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from _localized_texts(part, (*keys, name))
    elif isinstance(value, tuple) and value and isinstance(value[0], LocalizedText | Model):
        for i, part in enumerate(value):
            yield from _localized_texts(part, (*keys, i))


def columns_without_labels(spec: ReleaseSpec) -> list[str]:
    """Return the columns without a label, as query.column, if any other column has a label."""
    columns = {
        f"{query}.{name}": column.label is not None
        for query, query_spec in spec.queries.items()
        for name, column in query_spec.columns.items()
    }
    return [shorten(name) for name, has in columns.items() if not has and any(columns.values())]
