"""Which rows of a table count, and the treatment of missing or undeclared values.

In a family of consistent tables, the same rows count in every table: those with a finest cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from dprelease.errors.printable import count_text, one_line
from dprelease.planning.bounded_words import (
    counted_rows_text,
    differently_bounded,
    read_keys,
    table_range_text,
)
from dprelease.query.expressions.computed_order import with_input_columns
from dprelease.query.grouping.group_keys import Key, key_of
from dprelease.query.resolve import Query
from dprelease.schema.columns import (
    BooleanColumn,
    CategoryColumn,
    Column,
    CutColumn,
    DateColumn,
    TimestampColumn,
    expression_of,
)
from dprelease.schema.document_part import Part
from dprelease.schema.field_types import DROP
from dprelease.schema.source_types.source import Source
from dprelease.statements.allocated_areas import allocating_columns


class TreatmentRecord(Part):
    """Which rows of one query count, the treatment of its values, and its joined columns.

    In a family of consistent tables, the same rows count in every table, whatever its keys.
    """

    query: str
    rows: str
    columns: dict[str, str]
    join: str | None = None


KEY, OTHER_KEY = "key", "key of other tables of the family"
"""The roles of a key in a table that has it, and in the other tables of its family."""

VALUE = "value"

UNUSED_VALUE = "not used, but its row still counts elsewhere"
"""What happens to a missing value of a number: a total adds nothing for it, no row is left out."""


class DifferentlyBoundedRecord(Part):
    """Tables of one source that need not add up, because limits apply to each separately."""

    source: str
    id: str
    tables: list[str]
    words: str


def bounding_records(queries: Sequence[Query]) -> list[DifferentlyBoundedRecord]:
    """Return a record of the tables of each source whose limits leave out different rows."""
    return [
        DifferentlyBoundedRecord(
            source=one.source, id=one.id, tables=list(one.tables), words=f"{one.words}."
        )
        for one in differently_bounded(queries)
    ]


def treatment_record(query: Query) -> TreatmentRecord:
    """Return the record of one table: which rows count in it, and the treatment of its columns."""
    roles = [*_key_treatments(query), *_value_treatments(query), *_condition_treatments(query)]
    if query.unit.id is not None:
        lookup = query.table.privacy_unit.lookup
        looked_up = "" if lookup is None else f"looked up by '{lookup.key}'; "
        roles.append((query.unit.id, "id", f"{looked_up}missing: drop"))
    texts_by_column: dict[str, list[str]] = {}
    for column, role, words in roles:
        held = texts_by_column.setdefault(column, [])
        # If a column has no other role, the treatment of its values stands without a role.
        text = words if role == VALUE and not held else f"{role}; {words}"
        held += [] if text in held or words in held else [text]
    return computed_and_joined(
        query, {column: "; ".join(held) for column, held in texts_by_column.items()}
    )


def treatment_rows(queries: Sequence[Query]) -> list[tuple[str, str, str]]:
    """Return the tables, the column, and the treatment of its values, once for each treatment.

    A family's tables have the same treatments, whether a column is a key of the table or not.
    """
    names: dict[tuple[str, str], list[str]] = {}
    for query in queries:
        for column, words in treatment_record(query).columns.items():
            for role in (KEY, OTHER_KEY):
                words = words.removeprefix(f"{role}; ")
            names.setdefault((column, words), []).append(query.name)
    return [(table_range_text(tables), *row) for row, tables in names.items()]


def _key_treatments(query: Query) -> Iterator[tuple[str, str, str]]:
    """Yield column, role and treatment of the table's keys, and of its family's other keys."""
    columns, read = query.table.columns, read_keys(query)
    own = [key.column for key in query.key_columns]
    for column, leaf in _outer_levels(query).items():
        role = KEY if column in own else OTHER_KEY
        yield column, role, f"the area to which the value of '{leaf}' is assigned"
    for key in read:
        declared = columns[key.column]
        words = (
            _key_treatment(key, columns)
            if query.private is None
            else _private_key_treatment(declared)
        )
        yield key.column, KEY if key.column in own else OTHER_KEY, words


def _outer_levels(query: Query) -> dict[str, str]:
    """Return the levels of areas that are not read from rows, with the column that is read."""
    levels = {key.column: key.leaf for key in query.key_columns if key.read_from != key.column}
    if query.finest is not None and query.declared_family is not None:
        *outer, leaf = query.declared_family.hierarchy or ("",)
        levels |= dict.fromkeys(outer, leaf)
    return levels


def _key_treatment(key: Key, columns: Mapping[str, Column]) -> str:
    """Return what happens to missing and to undeclared values of a key, in words."""
    column, missing = columns[key.column], _cell_text(key, key.nulls)
    outer = " or ".join(f"'{name}'" for name in allocating_columns(columns, key.column))
    if outer:
        part = f"the unallocated part of the area that the row has in {outer}, and without it"
        return f"missing: {part} {missing}; not declared: {part} {missing}"
    if isinstance(column, CutColumn):
        return f"missing: {missing}; outside the edges: {_cell_text(key, key.others)}"
    if key.kind == "text":
        return f"missing: {missing}; not declared: {_cell_text(key, key.others)}"
    # A value that is not a boolean counts as missing.
    return f"missing: {missing}" + ("" if key.kind == "boolean" else "; outside the bounds: drop")


def _cell_text(key: Key, index: int | None) -> str:
    """Return the value of a key at an index; the word for dropped rows if it is None."""
    if index is None:
        return DROP
    value = key.values[index]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _private_key_treatment(column: Column) -> str:
    """Return the treatment of a private key, which may have any value if it declares no list."""
    if isinstance(column, CategoryColumn | CutColumn):
        outside = "not declared" if isinstance(column, CategoryColumn) else "outside the edges"
        return f"missing: {column.fill}; {outside}: {column.others}"
    return "missing: drop"


def _value_treatments(query: Query) -> Iterator[tuple[str, str, str]]:
    """Yield the treatment of the values that measurements read."""
    columns: Mapping[str, Column] = query.table.columns
    for aggregate in (measurement.aggregate for measurement in query.measurements):
        for name in aggregate.reads:
            column = columns[name]
            if any(name == one.column and one.lattice is not None for one in aggregate.factors):
                fill = getattr(column, "fill", DROP)
                words = UNUSED_VALUE if fill == DROP else fill
                is_date = isinstance(column, DateColumn | TimestampColumn)
                is_flag = isinstance(column, BooleanColumn)
                missing = "missing or outside the bounds" if is_date else "missing"
                clamped = "" if is_date or is_flag else "; outside the bounds: clamped"
                yield name, VALUE, f"{missing}: {words}{clamped}"
            elif aggregate.by_places:
                key = key_of(name, column)
                yield (
                    name,
                    VALUE,
                    _key_treatment(key, columns) if isinstance(key, Key) else "missing: drop",
                )
            elif name != query.unit.id:
                yield name, VALUE, "missing: not counted"


def _condition_treatments(query: Query) -> Iterator[tuple[str, str, str]]:
    """Yield the treatment of the values that the condition and the join compare."""
    for name in () if query.predicate is None else query.predicate.columns:
        yield (
            name,
            "condition",
            "compared before missing and undeclared values are replaced; a row does not count if "
            "the condition is unknown because values are missing",
        )
    join = query.join
    for name, _ in () if join is None or join.by_unit else join.on:
        other = "" if join is None else join.declared.table.name
        effect = f"the columns of '{other}' are missing"
        if join is not None and join.matched_only:
            effect = "the row does not count"
        yield name, "join", f"missing or not in '{other}': {effect}"


def missing_codes_text(column: Column) -> str:
    """Return the codes that count as missing values of a column, in words; empty without any."""
    codes = getattr(column, "missing", ())
    return f"missing values: also {', '.join(codes)}" if codes else ""


def replaced_codes_text(source: Source | None, column: str) -> str:
    """Return in which files of a source codes of a column are replaced; empty if in none."""
    found = [
        f"{count_text(len(one.codes[column]), 'code', 'codes')} of '{one_line(_file_name(one))}'"
        for one in (() if source is None else source.parts)
        if column in one.codes
    ]
    return f"replaced by other codes as declared: {', '.join(found)}" if found else ""


def _file_name(source: Source) -> str:
    """Return the name of a file or the pattern of names, without the folders above it."""
    return PurePath(source.path or "").name


def _missing_texts(query: Query) -> str:
    """Return a sentence on the texts of a source that mean missing values; empty without any."""
    source = query.declared.table.source
    texts = [] if source is None else [text for text in source.null_texts if text]
    if not texts:
        return ""
    return f" In the source, these texts mean that a value is missing: {', '.join(texts)}."


def computed_and_joined(query: Query, columns: dict[str, str]) -> TreatmentRecord:
    """Return a treatment record, which also states the query's computed and joined columns."""
    table, join = query.table, query.join
    wanted = [name for name in columns if name in table.columns]
    wanted += query.predicate.columns if query.predicate else ()
    wanted += [name for m in query.measurements for name in m.aggregate.reads]
    wanted += [] if join is None else [left for left, _ in join.on]
    described = dict(columns)
    for name in with_input_columns(table.columns, query.formulas, wanted):
        words, declared = [described[name]] if name in described else [], query.declared
        if join is not None and name in join.columns:
            words.append(f"from '{join.declared.table.name}'")
            declared = join.declared
        codes = missing_codes_text(table.columns[name])
        words += filter(None, [codes, replaced_codes_text(declared.table.source, name)])
        expression = expression_of(table.columns[name])
        if expression is not None:
            words.append(f"computed in each row: {expression}")
        if words:
            described[name] = "; ".join(words)
    return TreatmentRecord(
        query=query.name,
        rows=f"{counted_rows_text(query)}{_missing_texts(query)}",
        columns=described,
        join=None if join is None else join.description(table.name),
    )


def treatment_sentence(text: str) -> str:
    """Return the treatment of a column in the manifest as a sentence for readers."""
    said, role = dict[str, None](), VALUE
    for part in text.split("; "):
        if part in (KEY, OTHER_KEY, VALUE, "id", "condition", "join"):
            role = part
        else:
            said[_plain_treatment(part, is_row=role in (KEY, OTHER_KEY, "id"))] = None
    sentence = "; ".join(said)
    return f"{sentence[:1].upper()}{sentence[1:]}."


def _plain_treatment(part: str, *, is_row: bool) -> str:
    """Return a part of a treatment in plain words; one that is in plain words stays as it is.

    `is_row`: whether a value that can't be used leaves out its row, and not only itself.
    """
    word, _, treatment = part.partition(": ")
    which = {
        "missing": "without a value",
        "not declared": "with an undeclared code",
        "outside the bounds": "with a value outside the bounds",
        "outside the edges": "with a value outside the edges",
    }.get(word)
    if word == "missing values":
        return f"these codes mean that the value is missing: “{treatment.removeprefix('also ')}”"
    if which is None:
        return part
    if treatment == "clamped":
        return "values outside the bounds count as the nearest bound"
    if treatment in (DROP, "not counted", UNUSED_VALUE):
        return f"rows {which} are left out" + ("" if is_row else " of the numbers of this column")
    area, without, otherwise = treatment.partition(" and without it ")
    if without:  # an area is read from another column of the row
        left = "are left out" if otherwise == DROP else f"count under “{otherwise}”"
        return f"rows {which} count in {area} and without it {left}"
    return f"rows {which} count " + (f"under “{treatment}”" if is_row else f"as {treatment}")
