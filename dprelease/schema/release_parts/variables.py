"""Variables of a release file: `${year}` in paths, titles and conditions.

A value is a text of a declared type. The person who runs the release sets the values, and the
manifest lists them. In a path, a value is a part of one name; in a condition, it is one literal:
`where: year = ${year}` compares with the number 2026 or with the text '2026', depending on the
declared type. No value can change the folder of a path, or extend a condition.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Literal, get_args

from dprelease.errors import DeclarationError, DpReleaseError, raise_all
from dprelease.errors.suggestions import nearest
from dprelease.schema.model import shorten
from dprelease.schema.yaml_text.reader import Document, KeyPath, Plain

Kind = Literal["integer", "number", "date", "text"]
KINDS: tuple[str, ...] = get_args(Kind)
_NEEDED = f"it must map names to types, such as {{year: integer}}; types are {', '.join(KINDS)}"
NAME = r"[A-Za-z_][A-Za-z0-9_]*"
MARK = re.compile(rf"(\$?)\$\{{({NAME})\}}")
"""The pattern of a variable, or of literal text if a second dollar sign precedes it."""

INTEGER = r"-?(?:0|[1-9][0-9]{0,17})"
FORMS = {"integer": INTEGER, "number": rf"{INTEGER}(?:\.[0-9]{{1,18}})?"}
LONGEST = 200
"""Maximum number of characters of a value."""

SIGNS = frozenset(("=", "==", "<>", "!=", "<", ">", "<=", ">=", "(", ",", "+", "-", "*", "/", "//"))
WORDS = frozenset(
    ("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ILIKE", "CASE", "WHEN", "THEN", "ELSE")
)
BEFORE = SIGNS | WORDS | {"%", "||"}
"""The tokens that may precede a value in a condition: after a name, -5 would be a subtraction."""

ANY = "*"
TITLE, PATH, SQL = "title", "path", "sql"
ABOUT = (
    "period", "version", "replaces", "area", "publisher", "contact", "licence", "methodology"
)  # fmt: skip
READ: tuple[KeyPath, ...] = tuple(
    (several, ANY, *part)
    for several in ("queries", "records")
    for part in ((), ("tables", ANY), ("columns", ANY))
)
"""The key paths of all parts with texts for readers, except the release as a whole."""

ONE: tuple[KeyPath, ...] = ((), (ANY,))
LISTED: tuple[KeyPath, ...] = ((), (ANY,), (ANY, ANY))
TEXTS = {"title": ONE, "label": ONE, "description": ONE, "footnotes": LISTED, "notes": LISTED}
"""The texts for readers, and the key paths below each: one text or one per language, or lists."""

RELEASES: dict[KeyPath, str] = {
    ("title",): TITLE,
    ("output",): PATH,
    ("ledger",): PATH,
    ("tables", ANY): PATH,
    ("queries", ANY, "where"): SQL,
    ("queries", ANY, "derive", ANY, "expression"): SQL,
    **{("about", name): TITLE for name in ABOUT},
    **{
        (*keys, name, *below): TITLE
        for keys in (("about",), *READ)
        for name, depths in TEXTS.items()
        for below in depths
    },
}
TABLES: dict[KeyPath, str] = {
    ("source",): PATH,
    ("source", "path"): PATH,
    ("source", "table"): PATH,
    ("privacy_unit", "lookup", "source"): PATH,
    ("privacy_unit", "lookup", "source", "path"): PATH,
    ("privacy_unit", "lookup", "source", "table"): PATH,
    ("columns", ANY, "values_from"): PATH,
    ("columns", ANY, "values_from", "file"): PATH,
    ("columns", ANY, "expression"): SQL,
}
"""The key paths at which variables are allowed, with the kind of text at each."""


@dataclass
class Variables:
    """The variables of one release: their types, their values, and the names used so far."""

    kinds: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def find_unused(self, document: Document) -> Iterator[DpReleaseError]:
        """Yield an error for every variable that no file of the release uses."""
        for name in self.kinds:
            if name not in self.used:
                yield _variable_error("DP-VAR-003", document, name)


def variables_of(document: Document, values: Mapping[str, str]) -> Variables:
    """Return the variables that a release file declares, with the values for this run.

    Raises Findings or DeclarationError: DP-DECL-003 if variables are declared in a wrong form,
    DP-VAR-001 for a value of an unknown variable, 002 for a variable without a value, and 004 for a
    value of another type.
    """
    declared = document.values.get("variables", {})
    known: dict[str, str] = {}
    errors: list[DpReleaseError] = []
    for name, kind in declared.items() if isinstance(declared, dict) else [("", declared)]:
        if isinstance(kind, str) and kind in KINDS and re.fullmatch(NAME, name):
            known[name] = kind
            continue
        place = document.place("variables", *([name] if name else []))
        errors.append(DeclarationError("DP-DECL-003", place=place, problem=_NEEDED))
    if not errors:
        errors = [*_name_errors(document, known, values), *_type_errors(document, known, values)]
    raise_all(errors)
    return Variables(known, {name: values[name] for name in known})


def _variable_error(code: str, document: Document, name: str, **more: str) -> DeclarationError:
    place = document.place("variables", name)
    fields: dict[str, Any] = {"name": name, **more}
    return DeclarationError(code, place=place, **fields)


def _name_errors(
    document: Document, known: Mapping[str, str], values: Mapping[str, str]
) -> Iterator[DpReleaseError]:
    """Yield an error for each value of a variable that is not declared."""
    names = ", ".join(known) or "none"
    for name in values.keys() - known.keys():
        shown = shorten(name)
        close = nearest(name[:100], known)
        place = document.place("variables")
        yield DeclarationError("DP-VAR-001", place=place, name=shown, nearest=close, known=names)


def _type_errors(
    document: Document, known: Mapping[str, str], values: Mapping[str, str]
) -> Iterator[DpReleaseError]:
    """Yield an error for each variable without a value, or with one of another type."""
    for name, kind in known.items():
        if name not in values:
            yield _variable_error("DP-VAR-002", document, name)
            continue
        problem = _value_problem(values[name], kind)
        if problem is not None:
            found = shorten(values[name])
            yield _variable_error("DP-VAR-004", document, name, found=found, problem=problem)


def _value_problem(value: str, kind: str) -> str | None:
    """Return the reason why a value is not of a type; None if it is, or the type is unknown."""
    if kind in FORMS:
        fits = re.fullmatch(FORMS[kind], value, re.ASCII) is not None
        return None if fits else f"it must be {'an integer' if kind == 'integer' else 'a number'}"
    if kind == "date":
        try:
            return None if date.fromisoformat(value).isoformat() == value else _DAY
        except ValueError:
            return _DAY
    hidden = any(unicodedata.category(mark).startswith("C") for mark in value)
    if not value.strip() or len(value) > LONGEST or hidden:
        return f"it must be a text of 1 to {LONGEST} visible characters"
    return None


_DAY = "it must be a date in the form YYYY-MM-DD"


def fill_variables(
    document: Document, variables: Variables, places: Mapping[KeyPath, str]
) -> Document:
    """Return a document with its variables filled in; errors are added to its findings."""
    # Keys that come from `defaults` are not in the text of this file.
    if not document.borrowed and "${" not in document.text:
        return document
    findings = dict(document.findings)

    def fill_value(value: Plain, keys: KeyPath) -> Plain:
        """Return a value with its variables filled in, also in lists and mappings."""
        if isinstance(value, dict):
            return {name: fill_value(inner, (*keys, name)) for name, inner in value.items()}
        if isinstance(value, list):
            return [fill_value(inner, (*keys, i)) for i, inner in enumerate(value)]
        if value is None or MARK.search(value) is None:
            return value
        # The YAML reader reports every ${...} as an unsupported placeholder (DP-YAML-008).
        earlier = findings.pop(keys, None)
        text, error = _fill_text(value, keys, document, variables, places)
        if error is not None:
            findings[keys] = (
                earlier if earlier is not None and error.code == "DP-YAML-008" else error
            )
        elif earlier is not None and earlier.code != "DP-YAML-008":
            findings[keys] = earlier
        return text

    values = {name: fill_value(value, (name,)) for name, value in document.values.items()}
    return replace(document, values=values, findings=findings)


def _fill_text(
    text: str,
    keys: KeyPath,
    document: Document,
    variables: Variables,
    places: Mapping[KeyPath, str],
) -> tuple[str, DeclarationError | None]:
    """Return a text with its variables filled in, or the unchanged text and an error."""
    place, kind = document.place(*keys), _text_kind(keys, places)
    names = [match[2] for match in MARK.finditer(text) if not match[1]]
    for name in names:
        if name not in variables.kinds:
            if not variables.kinds:
                mark = "${" + name + "}"
                return text, DeclarationError("DP-YAML-008", place=place, found=mark)
            close = nearest(name, variables.kinds)
            return text, DeclarationError("DP-VAR-005", place=place, name=name, nearest=close)
        variables.used.add(name)
        if kind is None:
            problem = "it is not a path, a text for readers, or a condition"
            return text, DeclarationError("DP-VAR-006", place=place, name=name, problem=problem)
        value = variables.values[name]
        if kind == PATH and not _is_part_of_a_name(value):
            found = shorten(value)
            return text, DeclarationError("DP-VAR-007", place=place, name=name, found=found)
    filled, spots = _text_with_values(text, variables, as_literals=kind == SQL)
    if names and kind == SQL and not _are_single_tokens(filled, spots):
        problem = "in a condition a variable is a literal; it can't be in quotes or part of a word"
        return text, DeclarationError("DP-VAR-006", place=place, name=names[0], problem=problem)
    return filled, None


def _text_kind(keys: KeyPath, places: Mapping[KeyPath, str]) -> str | None:
    """Return the kind of text at a key path; None if no variable is allowed there."""
    for pattern, kind in places.items():
        if len(pattern) == len(keys) and all(
            expected in (ANY, key) for expected, key in zip(pattern, keys, strict=True)
        ):
            return kind
    return None


def _is_part_of_a_name(value: str) -> bool:
    """Return whether a value can be part of a file name: no separator, no parent, no pattern."""
    is_plain = all(mark.isalnum() or mark in " ._-" for mark in value)
    return is_plain and value.strip(" .") == value


def _text_with_values(
    text: str, variables: Variables, *, as_literals: bool
) -> tuple[str, list[tuple[int, int]]]:
    """Return a text with values filled in, and the start and the end of each value."""
    parts: list[str] = []
    spots: list[tuple[int, int]] = []
    at = size = 0
    for match in MARK.finditer(text):
        before = text[at : match.start()]
        at = match.end()
        name = match[2]
        value = "${" + name + "}"
        if not match[1]:
            value = variables.values[name]
            value = _sql_literal(value, variables.kinds[name]) if as_literals else value
            spots.append((size + len(before), size + len(before) + len(value)))
        parts += [before, value]
        size += len(before) + len(value)
    return "".join([*parts, text[at:]]), spots


def _sql_literal(value: str, kind: str) -> str:
    if kind in FORMS:
        # without the space, two minus signs would start a comment
        return f" {value}" if value.startswith("-") else value
    # Doubled quotes: otherwise a value could end its literal, and go on with a condition of its
    # own.
    quoted = "'" + value.replace("'", "''") + "'"
    return f"DATE {quoted}" if kind == "date" else quoted


def _are_single_tokens(text: str, spots: list[tuple[int, int]]) -> bool:
    """Return whether each literal is exactly one token of a condition, as the parser splits it."""
    from sqlglot import Dialect
    from sqlglot.errors import SqlglotError

    try:
        tokens = Dialect.get_or_raise("duckdb").tokenize(text)
    except SqlglotError:
        return False
    begins = {token.start: i for i, token in enumerate(tokens)}
    ends = {token.end + 1 for token in tokens}
    for start, end in spots:
        # The space in front of a negative number belongs to no token.
        first = begins.get(start + text[start:end].startswith(" "))
        is_alone = re.match(r"[\w.'\"$]", text[end:]) is None
        if first is None or end not in ends or not is_alone:
            return False
        if first > 0 and not _precedes_value(tokens[first - 1]):
            return False
    return True


def _precedes_value(token: Any) -> bool:
    """Return whether a value starts after a token, and not an operator or a call."""
    return token.token_type.name not in ("IDENTIFIER", "STRING", "VAR") and (
        token.text.upper() in BEFORE
    )


def parse_assignments(texts: Mapping[str, object] | list[str] | None) -> dict[str, str]:
    """Return the values of variables from `--set name=value`, or from a Python mapping.

    Raises DeclarationError: DP-VAR-008 for an argument without a name and "=", or a repeated name.
    """
    if texts is None or isinstance(texts, Mapping):
        return {str(name): str(value) for name, value in (texts or {}).items()}
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        problem = "" if equals and re.fullmatch(NAME, name) else "it must be a name, = and a value"
        problem = problem or ("it is set twice" if name in found else "")
        if problem:
            raise DeclarationError("DP-VAR-008", found=shorten(text), problem=problem)
        found[name] = value
    return found
