"""What is wrong with a text that is no YAML: the line to mend, the cause and the mend, in words.

A parser tells where it gave up and in its own terms; the mistake often stands a line before.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import yaml

MEND = "mend the syntax at this line"
OPENS = {"[": ("bracket", "]"), "{": ("brace", "}")}
STARTS = "*&!%@`>|,"
"""What a value can't start with unless it is quoted: YAML has other uses for it."""

_KEY = r"\s*(?:- +)*[^\s:'\"\[{#][^:]*:"
_STICKS = re.compile(r"\s*(?:- +)*[A-Za-z_]\w*:[^\s:/\\]")
_TWICE = re.compile(_KEY + r" .*:(?: |$)")
_QUOTED = re.compile(_KEY + r" +(['\"])(.*)$")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Flaw:
    """Where a text breaks the syntax, why, and what mends it."""

    line: int | None
    problem: str
    mend: str = MEND


@dataclass(frozen=True, slots=True)
class _Found:
    """What the parser says: its problem, the line and column where it gave up, and its start."""

    lines: list[str]
    problem: str
    context: str
    line: int
    column: int
    start: int
    """The line where it began with what it could not end, and the column there."""
    start_column: int

    def text(self, line: int) -> str:
        """Return a line, counted from 1; an empty one beyond the ends."""
        return self.lines[line - 1] if 0 < line <= len(self.lines) else ""

    @property
    def here(self) -> str:
        """Return the line where the parser gave up."""
        return self.text(self.line)

    @property
    def around(self) -> list[int]:
        """Return this line and the last one before it that is not empty."""
        before = (i for i in range(self.line - 1, 0, -1) if self.text(i).strip())
        return [self.line, *[i for i in [next(before, 0)] if i]]


def flaw_of(problem: yaml.YAMLError, text: str) -> Flaw:
    """Return where and why a text is no YAML.

    `problem`: what the parser raised for it.
    """
    mark = getattr(problem, "problem_mark", None)
    if mark is None:
        control = _CONTROL.search(text)
        line = None if control is None else text.count("\n", 0, control.start()) + 1
        return Flaw(line, "a control character stands in it", "remove it, or type the line anew")
    began = getattr(problem, "context_mark", None) or mark
    found = _Found(
        re.split(r"\r\n|\r|\n", text),
        getattr(problem, "problem", None) or "unexpected characters",
        getattr(problem, "context", None) or "",
        mark.line + 1,
        mark.column,
        began.line + 1,
        began.column,
    )
    told = (rule(found) for rule in RULES)
    return next((flaw for flaw in told if flaw is not None), Flaw(found.line, found.problem))


def _odd_space(found: _Found) -> Flaw | None:
    for line in found.around:
        text = found.text(line)
        indent = text[: len(text) - len(text.lstrip())]
        if "\t" in indent:
            return Flaw(line, "a tab stands where YAML takes spaces alone", "indent by spaces")
        if indent.strip(" "):
            return Flaw(line, "a space of another kind stands before it", "indent by plain spaces")
    return None


def _open_quote(found: _Found) -> Flaw | None:
    if "quoted scalar" not in found.context:
        return None
    if "escape" in found.problem:
        words = "a backslash stands between double quotes"
        return Flaw(found.line, words, "write single quotes, between which it is itself")
    return Flaw(found.start, "the quote that opens here is not closed", "close it on this line")


def _after_quote(found: _Found) -> Flaw | None:
    quoted = _QUOTED.match(found.here)
    if quoted is None or quoted[1] not in quoted[2].rstrip()[:-1]:
        return None
    words = "a value that starts with a quote ends with it, and more follows here"
    return Flaw(found.line, words, "put the whole value between quotes of the other kind")


def _open_bracket(found: _Found) -> Flaw | None:
    if "',' or" not in found.problem:
        return None
    if found.start == found.line:
        return Flaw(found.line, "a comma is missing between two values", "write it")
    mark = "[" if "sequence" in found.context else "{"
    name, end = OPENS[mark]
    return Flaw(found.start, f"the {name} that opens here is not closed", f"close it by {end}")


def _dash(found: _Found) -> Flaw | None:
    if not re.match(r"- ", found.here[found.column :]) or not found.here[: found.column].strip():
        return None
    words = "a dash and a space start an item of a list"
    return Flaw(found.line, words, "write a negative number without the space, such as -5")


def _start(found: _Found) -> Flaw | None:
    began = [found.start_column] if found.start == found.line else []
    for column in (found.column, found.column - 1, *began):
        mark = found.here[column : column + 1]
        if mark and mark in STARTS and found.here[:column].rstrip().endswith((":", "-", "[", "{")):
            words = f"a value can't start with {mark} unless it is quoted"
            return Flaw(found.line, words, "put the whole value between quotes, as in count: '*'")
    return None


def _no_space(found: _Found) -> Flaw | None:
    for line in reversed(found.around):
        if _STICKS.match(found.text(line)):
            return Flaw(line, "a space is missing after the colon", "write one, as in key: value")
    return None


def _second_colon(found: _Found) -> Flaw | None:
    if "mapping values" not in found.problem:
        return None
    if _TWICE.match(found.here):
        words = "a colon and a space stand inside of a value"
        return Flaw(found.line, words, "put the whole value between quotes")
    words = "the line is indented deeper than those that it belongs to"
    return Flaw(found.line, words, "indent keys of one mapping alike")


def _no_key(found: _Found) -> Flaw | None:
    if "unexpected ':'" in found.problem:
        return Flaw(found.line, "a key has no value", "write it after the colon and a space")
    if "expected ':'" not in found.problem:
        return None
    return Flaw(
        found.start, "the line has no key", "write key: value, or join it to the value above"
    )


def _indented(found: _Found) -> Flaw | None:
    text = found.here
    if "'-' indicator" in found.problem:
        words = "a key stands among the items of a list, which start with a dash"
        return Flaw(found.line, words, "write either a list or keys with values")
    if "expected key" not in found.problem:
        return None
    if text.lstrip().startswith("- "):
        words = "an item of a list stands among keys"
        return Flaw(found.line, words, "write either a list or keys with values")
    if found.column > len(text) - len(text.lstrip()):
        return Flaw(found.line, "something is left over after the value ends")
    words = "the line is indented otherwise than those that it belongs to"
    return Flaw(found.line, words, "indent keys of one mapping alike")


RULES: tuple[Callable[[_Found], Flaw | None], ...] = (
    _odd_space, _open_quote, _after_quote, _open_bracket, _dash, _start, _no_space, _second_colon,
    _no_key, _indented,
)  # fmt: skip
"""In this order: what is surely the mistake before what may follow from it."""
