"""Options of a run that its declaration lacks: the engine, sources, the party, the signing key."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from dprelease.documents.audit_record import Audit, digest_of_declaration, parse_audit
from dprelease.errors import (
    BudgetError,
    DataError,
    DeclarationError,
    DpReleaseError,
    Place,
    UsageError,
    raise_all,
)
from dprelease.errors.local_paths import check_paths
from dprelease.errors.suggestions import nearest
from dprelease.planning.kinds import kind_of
from dprelease.schema.load import Declaration, Declared
from dprelease.schema.model import shorten
from dprelease.schema.release_parts.extension_names import DEFAULT_ENGINE, ENGINES
from dprelease.schema.source_types.registry import type_of_address
from dprelease.schema.source_types.source import Source
from dprelease.system.files import read_file, reason_of
from dprelease.system.json_text import MOST_BYTES

if TYPE_CHECKING:
    from dprelease.signatures.keys import SigningKey


def engine_exposures(declaration: Declaration) -> list[str]:
    """Return what the engine exposes to people other than the recipients, without starting it."""
    from dprelease.exact.engines import engine_kind

    return engine_kind(declaration.spec.engine).exposure_texts(declaration.spec)


def with_engine(declaration: Declaration, engine: str | None) -> Declaration:
    """Return the declaration with another engine; its texts, which are published, stay the same.

    Raises UsageError: DP-SESSION-016 for an unknown engine. Raises DataError: DP-SPARK-005 if only
    DuckDB can run the release.
    """
    if engine is None or engine == declaration.spec.engine:
        return declaration
    if engine not in ENGINES:
        wanted, kind = " or ".join(ENGINES), f"'{shorten(engine)}'"
        raise UsageError("DP-SESSION-016", name="engine", wanted=wanted, kind=kind)
    problem = kind_of(declaration.spec).engine_problem
    if declaration.choices is not None:
        problem = "limits are chosen privately with the engine duckdb"
    if engine != DEFAULT_ENGINE and problem:
        raise DataError("DP-SPARK-005", problem=problem)
    return replace(declaration, spec=declaration.spec.model_copy(update={"engine": engine}))


def with_sources(declaration: Declaration, sources: Mapping[str, str | Path] | None) -> Declaration:
    """Return the declaration with other paths of sources; its texts stay the same.

    `sources`: the path of a source by the name of its table, of the declared source type. A
    relative path is relative to the current folder. The manifest names the tables, not the paths.

    Raises DeclarationError or Findings: DP-PATH-004 for a name of no table, or a source of another
    type; the errors of a path that a schema can't have. All are raised together.
    """
    if not isinstance({} if sources is None else sources, Mapping):
        problem = "they must be a mapping of table names to paths"
        raise DeclarationError("DP-PATH-004", problem=problem, known=", ".join(declaration.tables))
    errors: list[DpReleaseError] = []
    tables = dict(declaration.tables)
    for name, path in (sources or {}).items():
        try:
            known = ", ".join(declaration.tables)
            tables[name] = _with_source(tables.get(name), str(name), path, known)
        except DpReleaseError as error:
            errors.append(error)
    raise_all(errors)
    return replace(declaration, tables=tables, replaced_sources=tuple(sorted(sources or {})))


def _with_source(declared: Declared | None, name: str, path: object, known: str) -> Declared:
    """Return a table with another path of its source, or raise the errors of `with_sources`."""
    source = None if declared is None else declared.table.source
    problem = ""
    if declared is None:
        problem = f"'{shorten(name)}' is the name of no table{nearest(name, known.split(', '))}"
    elif source is None or source.path is None:
        one = "several files" if source is not None and source.files else "no path of a source"
        problem = f"the table '{name}' declares {one}, and only a path can be replaced"
    elif not isinstance(path, str | Path) or not str(path):
        problem = f"the source of '{name}' is not a path"
    if declared is None or source is None or problem:
        raise DeclarationError("DP-PATH-004", problem=problem, known=known)
    other = _source_at(source, str(path), name)
    if other.kind != source.kind:
        problem = f"the path for '{name}' is not that of {source.type.label}, as its table declares"
        raise DeclarationError("DP-PATH-004", problem=problem, known=known)
    return replace(declared, table=declared.table.model_copy(update={"source": other}))


def _source_at(source: Source, path: str, table: str) -> Source:
    """Return a source at another path; raise the errors of a schema that declares this path."""
    problems: list[ErrorDetails] = []
    try:
        declared = {**source.model_dump(exclude_unset=True), "path": path}
        found = type(source).model_validate(declared)
        if type_of_address(path) is None and not found.is_uri:
            check_paths(path)
            folder = "/" if path.endswith("/") else ""
            # `abspath` drops the last slash, which says that a path is a folder.
            found = found.model_copy(update={"path": os.path.abspath(path) + folder})
        return found
    except ValidationError as refused:
        problems = refused.errors(include_url=False, include_input=False)
    place = Place(key=f"source of {table}")
    raise DeclarationError(problems[0]["type"], place=place, **problems[0].get("ctx", {}))


def with_table_versions(declaration: Declaration, frames: Mapping[str, object]) -> Declaration:
    """Return the declaration with a version of each table that has versions; its texts stay.

    If no version is declared, it is the latest one, so that all queries of a run read the same
    rows. `frames`: the frames that are read in place of sources.

    Raises DataError: DP-DATA-001 or 024 if the log of a table can't be read.
    """
    from dprelease.exact.engines import frame_of
    from dprelease.exact.inputs import latest_version

    tables, versions = dict(declaration.tables), dict[str, int]()
    for name, declared in declaration.tables.items():
        source = declared.table.source
        key = None if source is None else source.type.version_key
        if source is None or key is None or frame_of(declared.table, frames) is not None:
            continue
        version = source.table_version
        if version is None:
            version = latest_version(declared, source)
        pinned = source.model_copy(update={key: version})
        table = declared.table.model_copy(update={"source": pinned})
        tables[name], versions[name] = replace(declared, table=table), version
    return replace(declaration, tables=tables, table_versions=versions) if versions else declaration


def parse_sources(texts: list[str] | None) -> dict[str, str]:
    """Return the paths of sources from `--source table=path`.

    Raises DeclarationError: DP-PATH-004 for an argument without a name and "=", or a repeated name.
    """
    found: dict[str, str] = {}
    for text in texts or ():
        name, equals, path = text.partition("=")
        problem = "" if equals and name and path else "write --source table=path"
        problem = problem or (f"'{shorten(name)}' is replaced twice" if name in found else "")
        if problem:
            raise DeclarationError("DP-PATH-004", problem=problem, known="those of the release")
        found[name] = path
    return found


def with_party(declaration: Declaration, party: int | None) -> Declaration:
    """Return the declaration for one party; unchanged if `party` is None.

    Raises BudgetError: DP-FED-004 for a number that belongs to no party.
    """
    if party is not None:
        _refuse_unknown_party(declaration, party)
    return replace(declaration, party=party)


def party_of(declaration: Declaration) -> int:
    """Return the number of the party that runs a federated release.

    Raises BudgetError: DP-FED-004 if the number is missing, or belongs to no party.
    """
    place = declaration.place("federated")
    if declaration.party is None:
        raise BudgetError(
            "DP-FED-004", place=place, problem="It is not stated which party runs this"
        )
    _refuse_unknown_party(declaration, declaration.party)
    return declaration.party


def _refuse_unknown_party(declaration: Declaration, party: int) -> None:
    """Raise BudgetError DP-FED-004 for a number that belongs to no party."""
    spec, place = declaration.spec.federated, declaration.place("federated")
    if spec is None:
        problem = f"There is no party {party}: the release declares no parties"
        raise BudgetError("DP-FED-004", place=place, problem=problem)
    if not 1 <= party <= spec.parties:
        problem = f"There is no party {party} of {spec.parties}"
        raise BudgetError("DP-FED-004", place=place, problem=problem)


def with_signing_key(declaration: Declaration, key: str | Path | SigningKey | None) -> Declaration:
    """Return a declaration whose run signs with this key or key file; unchanged if it is None.

    Raises SignatureError in the same cases as `signing_key`.
    """
    return declaration if key is None else replace(declaration, key=signing_key_of(key))


def signing_key_of(key: str | Path | SigningKey) -> SigningKey:
    """Return a key, or read it from a path; raises the errors of `signing_key`."""
    from dprelease.signatures.keys import signing_key

    return signing_key(key) if isinstance(key, str | Path) else key


OTHER = "the declaration has changed since"
PARTIAL = "covers only some of the queries"
BROKEN = "found a claim that does not hold"
UNFINISHED = "ended before everything was tested"


def with_audit(declaration: Declaration, path: str | Path | None) -> Declaration:
    """Return the declaration of a release with an audit file; unchanged if `path` is None.

    Raises DeclarationError: DP-AUDIT-003 if the file is not the result of an audit, 004 if it
    audited another declaration, 005 if the audit was incomplete or had findings.
    """
    if path is None:
        return declaration
    name = Path(path).name
    raw, audit = read_audit(Path(path))
    if audit.declaration != digest_of_declaration(declaration):
        raise DeclarationError("DP-AUDIT-004", name=name, problem=OTHER)
    problems = {BROKEN: not audit.holds, PARTIAL: not audit.whole, UNFINISHED: not audit.complete}
    for words, wrong in problems.items():
        if wrong:
            raise DeclarationError("DP-AUDIT-005", name=name, problem=words)
    return replace(declaration, audit=raw)


def read_audit(path: Path) -> tuple[bytes, Audit]:
    """Return the bytes of an audit file, and the outcome of the audit that they hold.

    Raises DeclarationError: DP-AUDIT-003 if the file is not the outcome of an audit.
    """
    problem = ""
    try:
        raw = read_file(path, MOST_BYTES)
        return raw, parse_audit(raw)
    except OSError as refused:
        problem = f"it can't be read ({reason_of(refused)})"
    except ValueError as refused:
        problem = str(refused)
    raise DeclarationError("DP-AUDIT-003", name=path.name, problem=problem)
