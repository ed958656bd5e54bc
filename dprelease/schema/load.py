"""Read a release file, its tables, and every file that they name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from dprelease.errors import DeclarationError, DpReleaseError, Findings, Place, raise_all
from dprelease.errors.local_paths import uri_fields
from dprelease.errors.suggestions import nearest
from dprelease.schema.languages import findings_of_texts
from dprelease.schema.model import (
    Files,
    relative_reader,
    shorten,
    unreadable_text,
    validate,
)
from dprelease.schema.public_values.large_files import (
    DEFAULT_ENCODING,
    FileCopy,
    Find,
    ReadText,
    find_copies,
    relative_finder,
)
from dprelease.schema.release import ReleaseSpec
from dprelease.schema.release_parts.defaults import with_defaults
from dprelease.schema.release_parts.limit_choice import ChosenLimits, LimitChoices, split_choices
from dprelease.schema.release_parts.variables import (
    RELEASES,
    TABLES,
    Variables,
    fill_variables,
    variables_of,
)
from dprelease.schema.source_texts import COMPRESSED
from dprelease.schema.source_types.registry import type_of_suffix
from dprelease.schema.table import Table
from dprelease.schema.yaml_text.python_values import yaml_text
from dprelease.schema.yaml_text.reader import (
    Document,
    KeyPath,
    Plain,
    not_utf8_text,
    parse_yaml,
    read_document,
    too_large_error,
)
from dprelease.system.files import TooLarge

if TYPE_CHECKING:
    from dprelease.signatures.keys import SigningKey

OTHER_DATA = (".xls", *COMPRESSED)
"""The endings of data files that no source type declares."""

PEEKED = "# PEEKED"
"""The mark of values that `dprelease init --peek` took from the data."""

CONFIRM = "# CONFIRM"
"""The mark of values that `dprelease init` took from a description, a catalogue or its own list."""


@dataclass(frozen=True)
class Declared:
    """A declared table: its model, its document, and the folder to which paths are relative."""

    table: Table
    document: Document
    folder: Path
    source_keys: KeyPath = ("source",)
    """The keys of the source in the document."""

    @property
    def rows(self) -> Declared:
        """The table as its source stores it: without persons that have to be looked up."""
        return replace(self, table=self.table.rows)

    @property
    def lookup(self) -> Declared | None:
        """The correspondence table that names the persons; None if the source has their ids."""
        table, keys = self.table.lookup, ("privacy_unit", "lookup", "source")
        return None if table is None else replace(self, table=table, source_keys=keys)

    @property
    def source_place(self) -> Place:
        """The position of the source in the document."""
        return self.document.place(*self.source_keys)


@dataclass(frozen=True)
class Declaration:
    """A release as declared; no data has been opened.

    `texts` has the exact text of every file of the declaration, by its path relative to the release
    file. The release file itself has the name "release.yaml" or its actual name.
    """

    spec: ReleaseSpec
    document: Document
    tables: dict[str, Declared]
    texts: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    """The values of the release's variables, which are filled in everywhere except in `texts`."""
    party: int | None = None
    """The number of the party that runs a federated release; all parties have the same texts."""
    key: SigningKey | None = None
    """The key that signs the release's manifest, and its entries in a ledger with signers."""
    audit: bytes | None = field(default=None, repr=False)
    """The result of an audit of the release, which is published with it."""
    copies: dict[str, tuple[FileCopy, Path]] = field(default_factory=dict)
    """The files that are not in `texts`, by path: their digests, and their locations."""
    replaced_sources: tuple[str, ...] = ()
    """The names of tables whose source has another path in this run than in `texts`, sorted."""
    table_versions: Mapping[str, int] = field(default_factory=dict)
    """The versions that this run reads of tables that have versions, by the table's name."""
    choices: LimitChoices | None = None
    """The contribution limits that the release chooses privately; `spec` has the highest ones, and
    the rest of the budget."""
    chosen: ChosenLimits | None = None
    """The limits that have been chosen, which `spec` then has."""
    chooses_for: Declaration | None = field(default=None, repr=False)
    """The release for which this one chooses the limits."""

    def __repr__(self) -> str:
        return f"<Declaration: {self.spec.title!r}, tables {', '.join(self.tables)}>"

    def place(self, *keys: str | int) -> Place:
        """Return the position of a key path in the release file, for error messages."""
        return self.document.place(*keys)

    @property
    def folder(self) -> Path:
        """The folder of the release file."""
        return self.document.path.parent


def read_table(path: Path) -> Declared:
    """Return the declared table of a schema file; raise all errors together."""
    _refuse_data(path.name, Place(path.name), "a table schema", _SKETCHED)
    files = Files(relative_reader(path.parent), relative_finder(path.parent))
    document = fill_variables(read_document(path), Variables(), TABLES)
    _refuse_release(document)
    _add_unconfirmed_findings(document)
    return Declared(validate(Table, document, files), document, path.parent)


def is_table_schema(path: Path) -> bool:
    """Return whether a file declares a table, and not a release, by its keys; never raises."""
    try:
        keys = read_document(path).values.keys()
    except DpReleaseError:
        return False
    return "table" in keys and not {"tables", "queries", "records", "budget"} & keys


def table_from_mapping(values: Mapping[str, object], folder: Path) -> Declared:
    """Return the declared table of a Python mapping in the form of a schema file."""
    document = parse_yaml(yaml_text(values), folder / "schema")
    files = Files(relative_reader(folder), relative_finder(folder))
    return Declared(validate(Table, document, files), document, folder)


def read_declaration(
    path: Path,
    variables: Mapping[str, str] | None = None,
    texts: Mapping[str, str] | None = None,
) -> Declaration:
    """Return the release that a file declares, with its tables and the values of its variables.

    `texts`: the texts of files that exist only in memory, by name; the release file is one of them.

    Raises DeclarationError or Findings: all errors of the release file and of its tables are raised
    together.
    """
    # By its name alone, so that no row of a data file is read as YAML, or quoted in an error.
    _refuse_data(path.name, Place(path.name), "a release file", _ASKS)
    read = relative_reader(path.parent, texts)
    document = read_document(path) if texts is None else parse_yaml(texts[path.name], path)
    find = relative_finder(path.parent)
    return _declaration_of_document(document, read, find, document.path.name, variables or {})


def declaration_of(text: str, path: Path) -> Declaration:
    """Return the release that a text declares, as if it were the file at `path`."""
    read, find = relative_reader(path.parent), relative_finder(path.parent)
    return _declaration_of_document(parse_yaml(text, path), read, find, path.name, None)


def declaration_from_texts(
    texts: Mapping[str, str],
    name: str,
    variables: Mapping[str, str] | None = None,
    copies: Mapping[str, FileCopy] | None = None,
    folder: Path = Path(),
) -> Declaration:
    """Return the declaration from the texts in a manifest, and from copies of larger files.

    The copies lie in `folder`, the folder of the release. No other file is read.
    """
    document, find = parse_yaml(texts[name], Path(name)), find_copies(folder, copies or {})

    def read(file: str, _encoding: str = DEFAULT_ENCODING, /) -> str:
        """Return a text of the manifest, which is decoded."""
        return texts[file]

    return _declaration_of_document(document, read, find, name, variables or {})


def _declaration_of_document(
    document: Document,
    read: ReadText,
    find: Find,
    name: str,
    values: Mapping[str, str] | None,
) -> Declaration:
    """Return the release of a document; `values` are the values of its variables, or None."""
    _refuse_table(document)
    errors: list[DpReleaseError] = []
    texts = {name: document.text}
    variables = Variables()
    if values is not None:
        document, variables = prepare_document(document, read, texts, values)
    spec: ReleaseSpec | None = None
    files = Files(read, find)
    try:
        spec = validate(ReleaseSpec, document, files)
    except DpReleaseError as error:
        errors += _error_list(error)
    texts.update(files.texts)
    tables: dict[str, Declared] = {}
    for i, file in enumerate(table_files(document)):
        if uri_fields(file):  # an error in the release file
            continue
        try:
            place = document.place("tables", i)
            declared = _read_declared(file, document, files, texts, place, variables)
        except DpReleaseError as error:
            errors += _error_list(error)
            continue
        if declared.table.name in tables:
            place = document.place("tables", i)
            errors.append(DeclarationError("DP-RELEASE-006", place=place, name=declared.table.name))
        tables[declared.table.name] = declared
    # A table that can't be read may use a variable, and may be the one that a query names.
    if len(tables) == len(table_files(document)) > 0:
        errors += variables.find_unused(document)
        errors += unknown_tables(document, tables)
    if spec is not None:
        schemas = [(declared.table, declared.document) for declared in tables.values()]
        errors += findings_of_texts(spec, document, schemas)
    raise_all(errors)
    if spec is None:
        raise AssertionError("a refused document has findings")
    spec, choices = split_choices(spec, document, tables)
    known = dict(variables.values)
    return Declaration(
        spec, document, tables, texts, known, copies=dict(files.copies), choices=choices
    )


def prepare_document(
    document: Document, read: Callable[[str], str], texts: dict[str, str], values: Mapping[str, str]
) -> tuple[Document, Variables]:
    """Return a release file with shared keys and variables filled in, and the variables.

    The errors are those of `with_defaults` and `variables_of`.
    """
    complete = with_defaults(document, read, texts)
    variables = variables_of(complete, values)
    return fill_variables(complete, variables, RELEASES), variables


def table_files(document: Document) -> list[str]:
    """Return the file names under `tables` of a release file; other values are skipped."""
    tables = document.values.get("tables")
    return [file for file in tables if isinstance(file, str)] if isinstance(tables, list) else []


def _read_declared(
    file: str,
    release: Document,
    included: Files,
    texts: dict[str, str],
    place: Place,
    variables: Variables,
) -> Declared:
    """Return a table that a release file names, with the variables of the release."""
    _refuse_data(file, place, "a table schema", _SKETCHED)
    text, reason = None, ""
    try:
        text = included.read(file)
    except UnicodeDecodeError as problem:
        reason = f"'{shorten(file)}' is {not_utf8_text(problem)}"
    except TooLarge:
        raise too_large_error(Place(file)) from None
    except (OSError, KeyError) as problem:
        reason = unreadable_text(file, problem)
    if text is None:
        raise DeclarationError("DP-YAML-001", place=place, reason=reason)
    texts[file] = text
    folder = PurePosixPath(file).parent

    def read_beside(name: str, encoding: str = DEFAULT_ENCODING) -> str:
        """Return the text of a file that the table schema names."""
        return included.read(str(folder / name), encoding)

    files = Files(
        read_beside,
        lambda name: included.find(str(folder / name)),
    )
    document = fill_variables(parse_yaml(text, release.path.parent / file), variables, TABLES)
    _refuse_release(document)
    _add_unconfirmed_findings(document)
    table = validate(Table, document, files)
    texts.update({str(folder / name): content for name, content in files.texts.items()})
    included.copies.update({str(folder / name): copy for name, copy in files.copies.items()})
    return Declared(table, document, document.path.parent)


_IS_SCHEMA = "a file that starts with `table:` and declares `columns`"
_SKETCHED = f"{_IS_SCHEMA}; `dprelease init` sketches one"
_ASKS = "a file that lists table schemas under `tables` and declares `budget` and `queries`"
_IS_RELEASE = "a file that lists this one under `tables` and declares `budget` and `queries`"


def _refuse_data(name: str, place: Place, target: str, hint: str) -> None:
    """Raise an error for a data file, recognized by its name, instead of a declaration."""
    ending = PurePosixPath(name).suffix.lower()
    if ending in OTHER_DATA or type_of_suffix(ending) is not None:
        read = f"a data file, by its name ({ending})"
        raise DeclarationError("DP-RELEASE-018", place=place, found=read, wanted=target, hint=hint)


def _refuse_release(document: Document) -> None:
    if not {"table", "columns"} & document.values.keys() and "budget" in document.values:
        raise _other_document(document, "a release file", "a table schema", _IS_SCHEMA)


def _refuse_table(document: Document) -> None:
    if {"table", "columns"} <= document.values.keys() and "queries" not in document.values:
        raise _other_document(document, "a table schema", "a release file", _IS_RELEASE)


def _other_document(document: Document, found: str, wanted: str, hint: str) -> DeclarationError:
    place = Place(document.path.name)
    return DeclarationError("DP-RELEASE-018", place=place, found=found, wanted=wanted, hint=hint)


def _add_unconfirmed_findings(document: Document) -> None:
    """Add an error for every line whose mark says that its bounds or keys are not confirmed."""
    for number, line in enumerate(document.text.splitlines(), start=1):
        for mark, code in ((PEEKED, "DP-PEEK-001"), (CONFIRM, "DP-PEEK-002")):
            if mark in line:
                place = Place(document.path.name, number)
                # The mark is in a comment, which has no key path: the line's number keeps the
                # errors apart.
                document.findings["", number] = DeclarationError(code, place=place)


def unknown_tables(document: Document, tables: Mapping[str, Declared]) -> list[DpReleaseError]:
    """Return an error for every unknown name of a table, in addition to any other errors."""
    spots: list[tuple[KeyPath, str]] = []
    for name in _mapping_or_empty(document.values.get("queries")):
        spots += [(("queries", name, "from"), "DP-RELEASE-001")]
        spots += [(("queries", name, "join", "table"), "DP-RELEASE-001")]
    for name in _mapping_or_empty(document.values.get("records")):
        spots += [(("records", name, "from"), "DP-RELEASE-001")]
    references = [(_value_at(document, keys), code, document.place(*keys)) for keys, code in spots]
    shares = _mapping_or_empty(_mapping_or_empty(document.values.get("budget")).get("tables"))
    for name in shares:
        references += [(name, "DP-RELEASE-010", document.place("budget", "tables", name))]
    return [
        DeclarationError(
            code, place=place, name=name, nearest=nearest(name, tables), known=", ".join(tables)
        )
        for name, code, place in references
        if isinstance(name, str) and name not in tables
    ]


def _mapping_or_empty(value: Plain) -> Mapping[str, Plain]:
    """Return a value if it is a mapping, or else an empty mapping."""
    return value if isinstance(value, dict) else {}


def _value_at(document: Document, keys: KeyPath) -> Plain:
    """Return the value at a key path; None if the path does not exist."""
    value: Plain = document.values
    for key in keys:
        value = _mapping_or_empty(value).get(str(key))
    return value


def _error_list(error: DpReleaseError) -> list[DpReleaseError]:
    return list(error.errors) if isinstance(error, Findings) else [error]
