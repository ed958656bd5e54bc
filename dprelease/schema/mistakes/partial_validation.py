"""Keep the valid parts of a faulty declaration, to report errors of other kinds as well.

The rest of the release file and of its tables is read as if a wrong value were missing. The result
is never run. Parts that depend on a removed part are removed as well, so that no error is reported
that would disappear once the first error is fixed.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError

from dprelease.errors import DeclarationError, DpReleaseError, Findings
from dprelease.errors.suggestions import nearest
from dprelease.schema.columns import TextColumn
from dprelease.schema.load import (
    Declaration,
    Declared,
    prepare_document,
    table_files,
    unknown_tables,
)
from dprelease.schema.mistakes.validation_passes import remove_at, validate_in_passes
from dprelease.schema.model import Files, relative_reader
from dprelease.schema.public_values.large_files import ReadText, relative_finder
from dprelease.schema.release import BudgetSpec, QuerySpec, ReleaseSpec
from dprelease.schema.release_parts.variables import TABLES, Variables, fill_variables
from dprelease.schema.table import Table
from dprelease.schema.yaml_text.reader import (
    Document,
    KeyPath,
    Plain,
    dotted_path,
    parse_yaml,
    read_document,
)

STAND_INS: dict[str, Plain] = {"title": "-", "budget": {"epsilon": "1"}, "output": "out"}
"""The placeholders for missing keys of a release, which cause no further errors."""

QUERY_DEPENDENCIES = (
    "from", "join", "derive", "hierarchy", "histogram", "marginals", "private_keys",
)  # fmt: skip
"""The keys of a query on which its other keys depend: without one, the whole query is removed."""
FOR_READERS = ("label", "description", "footnotes", "decimals")
"""The keys of a column that have no effect on its values."""


@dataclass(frozen=True)
class ValidParts:
    """The valid parts of a release file and its tables, and the errors found in these parts."""

    declaration: Declaration | None = None
    """The valid parts; None if too few parts are valid."""
    findings: list[DpReleaseError] = field(default_factory=list)
    document: Document | None = None
    budget: BudgetSpec | None = None
    """The budget, even if other parts are invalid; None if the budget itself is invalid."""


def valid_parts(
    path: Path,
    variables: Mapping[str, str] | None = None,
    texts: Mapping[str, str] | None = None,
) -> ValidParts:
    """Return the valid parts of a release file and its tables; arguments as in `read_declaration`.

    This function raises no errors, because the caller has already reported the first ones.
    """
    read = relative_reader(path.parent, texts)
    try:
        whole = read_document(path) if texts is None else parse_yaml(texts[path.name], path)
        document, known = prepare_document(whole, read, {}, variables or {})
    except (DeclarationError, Findings):
        return ValidParts()
    findings: list[DpReleaseError] = []
    names, lost = table_files(document), set[str]()
    tables = {}
    for name in names:
        declared = _valid_table(path.parent, name, read, lost, known, findings)
        if declared is not None:  # without it, queries of this table can't be checked
            tables[declared.table.name] = declared
    if len(tables) == len(names) > 0:
        findings += unknown_tables(document, tables)
    values = _values(document)
    # Its limits are checked even if no query is valid.
    budget = _valid_budget(values)  # read it before a placeholder is filled in
    spec, dropped = _valid_release(
        document, values, tables, lost, Files(read, relative_finder(path.parent))
    )
    left = ValidParts(None, findings, document, budget)
    if spec is None:
        return left
    inside = [path for path in dropped if path[:1] == ("queries",) and len(path) > 2]
    leaning = {path[1] for path in inside if _is_query_dependency(str(path[2]))}
    independent = {name: query for name, query in spec.queries.items() if name not in leaning}
    spec = spec.model_copy(update={"queries": independent})
    return replace(left, declaration=Declaration(spec, document, tables))


def without_columns(declaration: Declaration, lost: Mapping[str, set[str]]) -> Declaration | None:
    """Return a declaration without some columns, and without all parts that depend on them.

    `lost` are the names of the columns, by table. Returns None if no query remains.
    """
    gone, tables = set[str](), {}
    for name, declared in declaration.tables.items():
        columns = _dependent_columns(declared.document, lost.get(name, set()))
        gone |= columns
        tables[name] = replace(declared, table=_with_text_columns(declared.table, columns))
    files = Files(relative_reader(declaration.folder), relative_finder(declaration.folder))
    document = declaration.document
    spec, _ = _valid_release(document, _values(document), tables, gone, files)
    return None if spec is None else replace(declaration, spec=spec, tables=tables)


def _valid_release(
    document: Document,
    values: dict[str, Plain],
    tables: Mapping[str, Declared],
    lost: set[str],
    files: Files,
) -> tuple[ReleaseSpec | None, list[KeyPath]]:
    """Return a release without invalid parts and lost columns, and the paths of removed parts."""
    queries = values.get("queries")
    if isinstance(queries, dict):
        values["queries"] = dict(_valid_queries(queries, tables, lost))
    spec, dropped, _ = validate_in_passes(ReleaseSpec, document, values, files, STAND_INS)
    return spec, dropped


def _valid_budget(values: Mapping[str, Plain]) -> BudgetSpec | None:
    """Return the budget of a release file, if it is valid."""
    try:
        return BudgetSpec.model_validate(values.get("budget"))
    except ValidationError:  # the caller has reported it
        return None


def _is_query_dependency(key: str) -> bool:
    """Return whether other keys depend on this key of a query, which may be misspelt."""
    known = [field.alias or name for name, field in QuerySpec.model_fields.items()]
    meant = key if key in known else nearest(key, known)
    return not any(part in meant for part in known if part not in QUERY_DEPENDENCIES)


def _values(document: Document) -> dict[str, Plain]:
    """Return the values of a document, without values that the YAML reader refuses."""
    values = copy.deepcopy(document.values)
    for keys in document.findings:
        for path in _with_same_line(document, keys):
            remove_at(values, path)
    return values


def _with_same_line(document: Document, keys: KeyPath) -> Iterator[KeyPath]:
    """Yield a key path and all other key paths on its line.

    A stray comma may have split one value into several keys.
    """
    line = document.lines.get(keys)
    for path, other in document.lines.items():
        if path == keys or (other == line and path[:-1] == keys[:-1] and len(path) == len(keys)):
            yield path


def _valid_table(
    folder: Path,
    name: str,
    read: ReadText,
    lost: set[str],
    known: Variables,
    findings: list[DpReleaseError],
) -> Declared | None:
    """Return the valid parts of a table; None if there are none.

    `read` returns the text of a file that the release names. The names of removed columns are added
    to `lost`, and errors that appear only after the removal to `findings`.
    """
    table_folder = folder / Path(name).parent
    files = Files(relative_reader(table_folder), relative_finder(table_folder))
    try:
        document = fill_variables(parse_yaml(read(name), folder / name), known, TABLES)
    except (OSError, ValueError, DeclarationError):
        return None
    table, dropped, hidden = validate_in_passes(Table, document, _values(document), files, {})
    findings += hidden
    names = {
        name for path in [*dropped, *document.findings] for name in _dependent_names(document, path)
    }
    gone = _dependent_columns(document, names)
    lost |= gone
    if table is None:
        return None
    return Declared(_with_text_columns(table, gone - names), document, document.path.parent)


def _with_text_columns(table: Table, names: set[str]) -> Table:
    """Return a table with some columns as text columns, so that messages still list them."""
    columns = {
        name: TextColumn(type="text") if name in names else column
        for name, column in table.columns.items()
    }
    return table.model_copy(update={"columns": columns})


def _dependent_columns(document: Document, lost: set[str]) -> set[str]:
    """Return the names of lost columns, and of all columns computed from a lost column."""
    columns = document.values.get("columns")
    # Computed columns, by each word of the formulas from which they are computed.
    read: dict[str, list[tuple[str, str]]] = {}
    for name, column in columns.items() if isinstance(columns, dict) else ():
        text = (column.get("expression") or column.get("cut")) if isinstance(column, dict) else None
        if isinstance(text, str):
            for part in set(re.findall(r"\w+", text)):
                read.setdefault(part, []).append((name, text))
    found, waiting = set(lost), list(lost)
    while waiting:
        name = waiting.pop()
        pattern = _name_pattern([name])
        first = re.search(r"\w+", name)
        near = read.get(first[0], ()) if first else ()
        more = {other for other, text in near if pattern.search(text)} - found
        found |= more
        waiting += more
    return found


def faulty_columns(declared: Declared, errors: Iterable[DpReleaseError]) -> set[str]:
    """Return the columns of a table whose schema has errors."""
    keys = {e.place.key for e in errors if e.place.file == declared.document.path.name}
    spots = {name: dotted_path(("columns", name)) for name in declared.table.columns}
    return {
        name
        for name, spot in spots.items()
        if any(key == spot or key.startswith(f"{spot}.") for key in keys)
    }


def _dependent_names(document: Document, path: KeyPath) -> Iterator[str]:
    """Yield the names that depend on a part of the schema: columns, and keywords of the unit."""
    if path[:1] == ("columns",) and len(path) > 2 and str(path[2]) in FOR_READERS:
        return
    if path[:1] == ("columns",) and len(path) > 1:
        yield str(path[1])
    elif path and path[0] != "columns":  # it may be a misspelt `privacy_unit`
        yield from ("count_distinct", "on_unit")
        yield from _texts_in(document.values.get(str(path[0])))


def _texts_in(value: Plain) -> Iterator[str]:
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(part)
    elif value is not None:
        yield value


def _valid_queries(
    queries: Mapping[str, Plain], tables: Mapping[str, Declared], lost: set[str]
) -> Iterator[tuple[str, Plain]]:
    """Yield the queries of known tables, without the parts that name a lost column."""
    pattern = _name_pattern(lost)
    for name, query in queries.items():
        if not isinstance(query, dict):
            yield name, query
            continue
        join = query.get("join")
        other = join.get("table") if isinstance(join, dict) else None
        if query.get("from") not in [*tables] or other not in [None, *tables]:
            continue
        left = {key: value for key, value in query.items() if not _names_any(value, pattern)}
        columns = query.get("columns")
        if isinstance(columns, dict):
            left["columns"] = {k: v for k, v in columns.items() if not _names_any(v, pattern)}
        if left.get("columns") and not (query.keys() - left.keys()) & set(QUERY_DEPENDENCIES):
            yield name, left


def _name_pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that finds any of the names in a text; with no names it finds nothing."""
    # Not \b, which finds no border beside a sign: names of columns may begin or end with one.
    names_escaped = (rf"(?<!\w){re.escape(name)}(?!\w)" for name in names if name)
    return re.compile("|".join(names_escaped) or r"$^")


def _names_any(value: Plain, pattern: re.Pattern[str]) -> bool:
    """Return whether a value has a text or a key in which the pattern finds a name."""
    if isinstance(value, dict):
        return any(_names_any(part, pattern) for part in (*value, *value.values()))
    if isinstance(value, list):
        return any(_names_any(part, pattern) for part in value)
    return value is not None and pattern.search(value) is not None
