"""YAML to plain mappings of text, with the line of every value, under strict limits.

Every scalar stays text (YAML 1.2 thinking: `no`, 010 and 1e-9 mean what they say) and is converted
by its declared type. Anchors, aliases, tags, merge keys and duplicate keys are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from dprelease.errors import DeclarationError, Place

SIZE_LIMIT = 1 << 20
DEPTH_LIMIT = 32
NODE_LIMIT = 200_000

PLACEHOLDER = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
"""What shells and templates fill in, and nothing here does."""

Plain = str | list["Plain"] | dict[str, "Plain"] | None
KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """One document: its exact text, its values, and the line of each key path."""

    path: Path
    text: str
    values: dict[str, Plain]
    lines: dict[KeyPath, int]

    def place(self, *keys: str | int) -> Place:
        """Return the place of a key path; its nearest known ancestor's line if it has none."""
        for length in range(len(keys), -1, -1):
            if keys[:length] in self.lines:
                line = self.lines[keys[:length]]
                return Place(self.path.name, line, dotted(keys))
        return Place(self.path.name, None, dotted(keys))


def dotted(keys: KeyPath) -> str:
    """Return a key path as text, such as queries.by_state.group_by[0]."""
    text = ""
    for key in keys:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text


def read_document(path: Path) -> Document:
    """Return the document of a YAML (or JSON) file.

    Raises
    ------
    DeclarationError
        DP-YAML-001 to 007.
    """
    here = Place(path.name)
    try:
        with path.open("rb") as file:
            raw = file.read(SIZE_LIMIT + 1)
    except OSError as problem:
        reason = (problem.strerror or "not readable").lower()
        raise DeclarationError("DP-YAML-001", place=here, reason=reason) from None
    if len(raw) > SIZE_LIMIT:
        raise DeclarationError("DP-YAML-002", place=here, limit="1 MiB")
    reason = ""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as problem:
        reason = f"it is {not_utf8(problem)}"
    if reason:
        raise DeclarationError("DP-YAML-001", place=here, reason=reason)
    return parse(text, path)


def not_utf8(problem: UnicodeDecodeError) -> str:
    """Return in words why a text is not read, by its first two bytes alone."""
    utf16 = problem.object[:2] in (b"\xff\xfe", b"\xfe\xff")
    return "UTF-16: save it as UTF-8" if utf16 else "not UTF-8: save it as UTF-8"


def parse(text: str, path: Path) -> Document:
    """Return the document of a text; `path` is only named in messages."""
    here = Place(path.name)
    events = iter(_checked_events(text, here))
    # The stream starts, and its only document; anything may follow.
    _, _, root = next(events), next(events), next(events)
    if not isinstance(root, yaml.MappingStartEvent):
        raise DeclarationError("DP-YAML-007", place=here)
    lines: dict[KeyPath, int] = {}
    values = _plain(root, events, (), lines, here)
    if not isinstance(values, dict):
        raise DeclarationError("DP-YAML-007", place=here)
    return Document(path, text, values, lines)


def _checked_events(text: str, here: Place) -> list[yaml.Event]:
    """Refuse what is not plain before anything is built, so that nothing can explode."""
    depth = documents = 0
    found: list[yaml.Event] = []
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            found.append(event)
            documents += isinstance(event, yaml.DocumentStartEvent)
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > DEPTH_LIMIT or len(found) > NODE_LIMIT:
                raise DeclarationError(
                    "DP-YAML-006", place=here, limit=DEPTH_LIMIT, nodes=NODE_LIMIT
                )
            if isinstance(event, yaml.NodeEvent) and _is_special(event):
                place = Place(here.file, _line(event.start_mark))
                raise DeclarationError("DP-YAML-004", place=place)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        line = _line(mark)
        words = getattr(problem, "problem", None) or "unexpected characters"
        if line is not None and "\t" in _indent(text, line):
            words = "a tab stands where YAML takes spaces alone"
        place = Place(here.file, line)
        raise DeclarationError("DP-YAML-003", place=place, problem=words) from None
    if documents != 1:
        raise DeclarationError("DP-YAML-007", place=here)
    return found


def _indent(text: str, line: int) -> str:
    """Return what stands before the first word of a line."""
    lines = text.splitlines()
    found = lines[line - 1] if line <= len(lines) else ""
    return found[: len(found) - len(found.lstrip())]


def _line(mark: object) -> int | None:
    line = getattr(mark, "line", None)
    return None if line is None else line + 1


def _starts(event: yaml.Event) -> int:
    line = _line(event.start_mark)
    if line is None:
        raise TypeError("the reader marks every event")
    return line


def _is_special(event: yaml.NodeEvent) -> bool:
    return (
        isinstance(event, yaml.AliasEvent)
        or event.anchor is not None
        or getattr(event, "tag", None) is not None
    )


def _plain(
    event: yaml.Event,
    events: Iterator[yaml.Event],
    keys: KeyPath,
    lines: dict[KeyPath, int],
    here: Place,
) -> Plain:
    """Return the value that starts with `event`; what follows is taken from `events`."""
    lines.setdefault(keys, _starts(event))
    if isinstance(event, yaml.ScalarEvent):
        found = PLACEHOLDER.search(event.value)
        if found is not None:
            place = Place(here.file, _starts(event), dotted(keys))
            raise DeclarationError("DP-YAML-008", place=place, found=found.group())
        empty = not event.style and event.value in ("", "~", "null")
        return None if empty else str(event.value)
    if isinstance(event, yaml.SequenceStartEvent):
        items: list[Plain] = []
        while not isinstance(item := next(events), yaml.SequenceEndEvent):
            items.append(_plain(item, events, (*keys, len(items)), lines, here))
        return items
    values: dict[str, Plain] = {}
    while not isinstance(key := next(events), yaml.MappingEndEvent):
        place = Place(here.file, _starts(key), dotted(keys))
        if not isinstance(key, yaml.ScalarEvent):
            raise DeclarationError("DP-YAML-007", place=place)
        if key.value == "<<":
            raise DeclarationError("DP-YAML-004", place=place)
        if key.value in values:
            raise DeclarationError("DP-YAML-005", place=place, name=key.value)
        lines[(*keys, key.value)] = _starts(key)
        values[key.value] = _plain(next(events), events, (*keys, key.value), lines, here)
    return values
