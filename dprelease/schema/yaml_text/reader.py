"""Parse YAML to plain mappings of texts, with the line of every value, under strict limits.

Every scalar stays a text until its declared type converts it: the parser does not convert `no`, 010
or 1e-9. Anchors, aliases, tags, merge keys and duplicate keys are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from dprelease.errors import DeclarationError, Place
from dprelease.schema.yaml_text.syntax import flaw_of
from dprelease.system.files import TooLarge, read_file, reason_of, size_text

SIZE_LIMIT = 1 << 20
DEPTH_LIMIT = 32
EMPTY = frozenset({"", "~", "null"})
"""The unquoted scalars that mean that a key has no value."""

NODE_LIMIT = 200_000
MOST_FINDINGS = 100
"""Maximum number of errors that are reported per document before its keys are checked."""
PARSERS_DEPTH = "exceeded maximum nesting depth"
"""The message of LibYAML, from PyYAML 6.0.4 on, for more than a thousand levels of nesting."""
LONGEST_KEY = 1000
"""Maximum number of characters of a key, which is the same for other declared texts."""

PLACEHOLDER = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
"""The pattern of placeholders of shells and templates, which are not supported."""

Plain = str | list["Plain"] | dict[str, "Plain"] | None
KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """One document: its exact text, its values, and the line of each key path.

    The items of a long list on one line have no entries in `lines`. `findings` are errors, by key
    path, that do not depend on the meaning of keys; `validate` raises them with all other errors.
    """

    path: Path
    text: str
    values: dict[str, Plain]
    lines: dict[KeyPath, int]
    findings: dict[KeyPath, DeclarationError] = field(default_factory=dict)
    borrowed: dict[str, str] = field(default_factory=dict)
    """The top-level keys that come from another file, with the name of that file."""

    def place(self, *keys: str | int) -> Place:
        """Return the position of a key path, or of its nearest ancestor with a known line."""
        file = self.borrowed.get(str(keys[0]) if keys else "", self.path.name)
        for length in range(len(keys), -1, -1):
            if keys[:length] in self.lines:
                line = self.lines[keys[:length]]
                return Place(file, line, dotted_path(keys))
        return Place(file, None, dotted_path(keys))


def dotted_path(keys: KeyPath) -> str:
    """Return a key path as text, such as queries.by_state.group_by[0]."""
    text = ""
    for key in keys:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text


def read_document(path: Path) -> Document:
    """Return the document of a YAML (or JSON) file.

    Raises DeclarationError: DP-YAML-001 to 007, except 005. The errors 005, 008 and 010 are added
    to `findings`.
    """
    place = Place(path.name)
    try:
        raw = read_file(path, SIZE_LIMIT)
    except TooLarge:
        raise too_large_error(place) from None
    except OSError as problem:
        is_folder = isinstance(problem, IsADirectoryError)
        reason = "it is a folder" if is_folder else reason_of(problem, "not readable")
        raise DeclarationError("DP-YAML-001", place=place, reason=reason) from None
    reason = ""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as problem:
        reason = f"it is {not_utf8_text(problem)}"
    if reason:
        raise DeclarationError("DP-YAML-001", place=place, reason=reason)
    return parse_yaml(text, path)


def too_large_error(place: Place) -> DeclarationError:
    """Return the error for a document that is too large."""
    return DeclarationError("DP-YAML-002", place=place, limit=size_text(SIZE_LIMIT))


def not_utf8_text(problem: UnicodeDecodeError) -> str:
    """Return the text of the reason why bytes can't be decoded; it quotes two bytes at most."""
    utf16 = problem.object[:2] in (b"\xff\xfe", b"\xfe\xff")
    return "UTF-16: save it as UTF-8" if utf16 else "not UTF-8: save it as UTF-8"


def parse_yaml(text: str, path: Path) -> Document:
    """Return the document of a text; `path` appears only in messages."""
    place = Place(path.name)
    if len(text) > SIZE_LIMIT:
        raise too_large_error(place)
    events = iter(_checked_events(text, place))
    # Skip the start of the stream and of its only document; the root may be any node.
    _, _, root = next(events), next(events), next(events)
    if not isinstance(root, yaml.MappingStartEvent):
        raise DeclarationError("DP-YAML-007", place=place)
    building = _DocumentBuilder(events, place)
    values = building.build_value(root, ())
    if not isinstance(values, dict):
        raise DeclarationError("DP-YAML-007", place=place)
    return Document(path, text, values, building.lines, building.findings)


def _checked_events(text: str, where: Place) -> list[yaml.Event]:
    """Return the parser's events; refuse unsupported syntax before any input expands in memory."""
    depth = documents = 0
    events: list[yaml.Event] = []
    try:
        # Events, and not values: the loader would resolve `no` to false, and drop the lines of
        # keys.
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            events.append(event)
            if not isinstance(event, yaml.ScalarEvent):  # most events are scalars
                documents += isinstance(event, yaml.DocumentStartEvent)
                depth += isinstance(event, yaml.CollectionStartEvent)
                depth -= isinstance(event, yaml.CollectionEndEvent)
            # Refused while events arrive, so that neither memory nor the recursion of the builder
            # can run out.
            if depth > DEPTH_LIMIT or len(events) > NODE_LIMIT:
                raise _nesting_error(where)
            if isinstance(event, yaml.NodeEvent) and _is_special(event):
                place = Place(where.file, _line_number(event.start_mark))
                raise DeclarationError("DP-YAML-004", place=place)
    except yaml.YAMLError as problem:
        if getattr(problem, "problem", None) == PARSERS_DEPTH:
            raise _nesting_error(where) from None
        flaw = flaw_of(problem, text)
        place = Place(where.file, flaw.line)
        raise DeclarationError(
            "DP-YAML-003", place=place, problem=flaw.problem, advice=flaw.advice
        ) from None
    if documents != 1:
        raise DeclarationError("DP-YAML-007", place=where)
    return events


def _nesting_error(place: Place) -> DeclarationError:
    """Return the error for a document with too many levels or too many values."""
    return DeclarationError("DP-YAML-006", place=place, limit=DEPTH_LIMIT, nodes=NODE_LIMIT)


def _line_number(mark: object) -> int | None:
    """Return the line of a position in the text, counted from 1; None if unknown."""
    line = getattr(mark, "line", None)
    return None if line is None else line + 1


def _start_line(event: yaml.Event) -> int:
    """Return the line, counted from 1, in which an event of the parser starts."""
    line = _line_number(event.start_mark)
    if line is None:
        raise TypeError("the reader marks every event")
    return line


def _is_special(event: yaml.NodeEvent) -> bool:
    """Return whether a node has a tag or an anchor, which every alias also has."""
    return event.anchor is not None or getattr(event, "tag", None) is not None


@dataclass
class _DocumentBuilder:
    """Builds the values, lines and errors of a document from the parser's events."""

    events: Iterator[yaml.Event]
    here: Place
    lines: dict[KeyPath, int] = field(default_factory=dict)
    findings: dict[KeyPath, DeclarationError] = field(default_factory=dict)

    def build_value(self, event: yaml.Event, keys: KeyPath, *, flow: bool = False) -> Plain:
        """Return the value that starts with an event; `flow`: whether it is inside braces."""
        self.lines.setdefault(keys, _start_line(event))
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar_value(event, keys, flow=flow)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list_items(keys)
        values: dict[str, Plain] = {}
        braces = bool(getattr(event, "flow_style", False))
        while not isinstance(key := next(self.events), yaml.MappingEndEvent):
            name = self._key_name(key, keys)
            inner = (*keys, name)
            if name in values:  # the first value is used
                place = Place(self.here.file, _start_line(key), dotted_path(inner))
                again = DeclarationError("DP-YAML-005", place=place, name=name)
                self._add_finding((*inner, len(self.findings)), again)
                self._skip_value(next(self.events))
                continue
            self.lines[inner] = _start_line(key)
            values[name] = self.build_value(next(self.events), inner, flow=braces)
        return values

    def _list_items(self, keys: KeyPath) -> list[Plain]:
        """Return the items of a list, up to its end."""
        items: list[Plain] = []
        while not isinstance(item := next(self.events), yaml.SequenceEndEvent):
            items.append(self.build_value(item, (*keys, len(items))))
        return items

    def _key_name(self, key: yaml.Event, keys: KeyPath) -> str:
        """Return the text of a key; refuse keys that are not plain texts, or too long."""
        place = Place(self.here.file, _start_line(key), dotted_path(keys))
        if not isinstance(key, yaml.ScalarEvent):
            raise DeclarationError("DP-YAML-007", place=place)
        if len(key.value) > LONGEST_KEY:
            raise DeclarationError("DP-YAML-009", place=place, limit=LONGEST_KEY)
        if key.value == "<<":
            raise DeclarationError("DP-YAML-004", place=place)
        return str(key.value)

    def _scalar_value(self, event: yaml.ScalarEvent, keys: KeyPath, *, flow: bool) -> Plain:
        """Return a text; None, and a finding, for a key without a value."""
        value: str = event.value
        if "${" in value:
            self._find_placeholder(event, keys)
        if event.style or value not in EMPTY:
            return value
        if value == "" and keys:
            place = Place(self.here.file, self.lines[keys], dotted_path(keys))
            problem, advice = _missing_value_problem(keys[-1], flow=flow)
            finding = DeclarationError("DP-YAML-010", place=place, problem=problem, advice=advice)
            self._add_finding(keys, finding)
        return None

    def _find_placeholder(self, event: yaml.ScalarEvent, keys: KeyPath) -> None:
        """Add a finding for a placeholder of a shell or a template."""
        placeholder = PLACEHOLDER.search(event.value)
        if placeholder is not None:
            place = Place(self.here.file, _start_line(event), dotted_path(keys))
            finding = DeclarationError("DP-YAML-008", place=place, found=placeholder.group())
            self._add_finding(keys, finding)

    def _add_finding(self, keys: KeyPath, finding: DeclarationError) -> None:
        """Add a finding at a key path, up to the maximum number."""
        if len(self.findings) < MOST_FINDINGS:
            self.findings[keys] = finding

    def _skip_value(self, event: yaml.Event) -> None:
        depth = int(isinstance(event, yaml.CollectionStartEvent))
        while depth:
            event = next(self.events)
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)


def _missing_value_problem(key: str | int, *, flow: bool) -> tuple[str, str]:
    """Return the problem of a key without a value, and its fix."""
    if isinstance(key, int):
        return "An item of the list has no value", "write one, or leave it out"
    if not flow:
        return f"The key '{key}' has no value", "write one, or leave it out"
    if ":" in key:
        return f"'{key}' has no space after its colon", "write one, as in key: value"
    advice = (
        "a comma starts a new key there: write decimals with a point, as in 0.5, lists in "
        "brackets, as in [a, b], and texts with a comma in quotes"
    )
    return f"'{key}' stands between braces as a key without a value", advice
