"""Explain YAML syntax errors: the line to change, the cause and the fix.

The parser reports the line where it stopped, in its own terms; the mistake is often on an earlier
line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import yaml

DEFAULT_FIX = "correct the syntax at this line"
NO_KEY, A_KEY = "the line has no key", "write key: value, or join it to the value above"
OPENS = {"[": ("bracket", "]"), "{": ("brace", "}")}
STARTS = "*&!%@`>|,"
"""The characters with which an unquoted value can't start, because they have other meanings."""

_KEY = r"\s*(?:- +)*[^\s:'\"\[{#][^:]*:"
_STICKS = re.compile(r"\s*(?:- +)*[A-Za-z_]\w*:[^\s:/\\]")
_TWICE = re.compile(_KEY + r" .*:(?: |$)")
_QUOTED = re.compile(_KEY + r" +(['\"])(.*)$")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class SyntaxFlaw:
    """The line at which a text violates the syntax, the cause, and the fix."""

    line: int | None
    problem: str
    advice: str = DEFAULT_FIX


@dataclass(frozen=True, slots=True)
class _ParserStop:
    """The parser's report: its problem, and the line and column where it stopped."""

    lines: list[str]
    problem: str
    context: str
    line: int
    column: int
    start: int
    """The line where the unfinished construct began; `start_column` is its column."""
    start_column: int

    def text(self, line: int) -> str:
        """Return a line, counted from 1; empty if it does not exist."""
        return self.lines[line - 1] if 0 < line <= len(self.lines) else ""

    @property
    def here(self) -> str:
        """The line where the parser stopped."""
        return self.text(self.line)

    @property
    def around(self) -> list[int]:
        """The number of the line where the parser stopped, and of the last non-empty one before."""
        before = (i for i in range(self.line - 1, 0, -1) if self.text(i).strip())
        return [self.line, *[i for i in [next(before, 0)] if i]]


def flaw_of(problem: yaml.YAMLError, text: str) -> SyntaxFlaw:
    """Return the flaw that makes a text invalid YAML.

    `problem` is the exception of the parser.
    """
    mark = getattr(problem, "problem_mark", None)
    if mark is None:
        control = _CONTROL.search(text)
        line = None if control is None else text.count("\n", 0, control.start()) + 1
        return SyntaxFlaw(
            line, "it contains a control character", "remove it, or type the line again"
        )
    began = getattr(problem, "context_mark", None) or mark
    stop = _ParserStop(
        re.split(r"\r\n|\r|\n", text),
        getattr(problem, "problem", None) or "unexpected characters",
        getattr(problem, "context", None) or "",
        mark.line + 1,
        mark.column,
        began.line + 1,
        began.column,
    )
    flaws = (rule(stop) for rule in RULES)
    return next((flaw for flaw in flaws if flaw is not None), SyntaxFlaw(stop.line, stop.problem))


def _indentation_character_flaw(stop: _ParserStop) -> SyntaxFlaw | None:
    """Return the flaw of a line that is indented with tabs or special spaces."""
    for line in stop.around:
        text = stop.text(line)
        indent = text[: len(text) - len(text.lstrip())]
        if "\t" in indent:
            return SyntaxFlaw(
                line,
                "the line is indented with a tab, but YAML allows only spaces",
                "indent with spaces",
            )
        if indent.strip(" "):
            return SyntaxFlaw(
                line,
                "the line is indented with a special space character",
                "indent with plain spaces",
            )
    return None


def _open_quote_flaw(stop: _ParserStop) -> SyntaxFlaw | None:
    """Return the flaw of a quote that is not closed, or of a backslash in quotes."""
    if "quoted scalar" not in stop.context:
        return None
    if "escape" in stop.problem:
        problem = "a text in double quotes contains a backslash"
        return SyntaxFlaw(
            stop.line, problem, "use single quotes, in which a backslash has no special meaning"
        )
    return SyntaxFlaw(
        stop.start, "the quote that opens here is not closed", "close it on this line"
    )


def _text_after_quote_flaw(stop: _ParserStop) -> SyntaxFlaw | None:
    """Return the flaw of text that follows after a closing quote."""
    quoted = _QUOTED.match(stop.here)
    if quoted is None or quoted[1] not in quoted[2].rstrip()[:-1]:
        return None
    problem = "more text follows after the closing quote of a value"
    return SyntaxFlaw(stop.line, problem, "put the whole value in quotes of the other kind")


def _unquoted_variable_flaw(stop: _ParserStop) -> SyntaxFlaw | None:
    """Return the flaw of a variable that is not quoted, in brackets or braces."""
    if "',' or" not in stop.problem or "${" not in stop.here:
        return None
    problem = "a text with ${...} in brackets or braces is not quoted"
    return SyntaxFlaw(stop.line, problem, "put it in quotes")


def _open_bracket_flaw(stop: _ParserStop) -> SyntaxFlaw | None:
    """Return the flaw of a bracket that is not closed, or of a missing comma."""
    if "',' or" not in stop.problem:
        return None
    if stop.start == stop.line:
        return SyntaxFlaw(stop.line, "a comma is missing between two values", "add it")
    mark = "[" if "sequence" in stop.context else "{"
    name, end = OPENS[mark]
    return SyntaxFlaw(
        stop.start, f"the {name} that opens here is not closed", f"close it with {end}"
    )


def _dash_flaw(stop: _ParserStop) -> SyntaxFlaw | None:
    """Return the flaw of a dash in front of a negative number."""
    if not re.match(r"- ", stop.here[stop.column :]) or not stop.here[: stop.column].strip():
        return None
    problem = "a dash followed by a space starts a list item"
    return SyntaxFlaw(stop.line, problem, "write a negative number without the space, such as -5")


def _start_character_flaw(stop: _ParserStop) -> SyntaxFlaw | None:
    began = [stop.start_column] if stop.start == stop.line else []
    for column in (stop.column, stop.column - 1, *began):
        mark = stop.here[column : column + 1]
        before = stop.here[:column].rstrip()
        if not mark or mark not in STARTS or not before.endswith((":", "-", "[", "{", ",")):
            continue
        if mark == "," and not before.endswith((":", "-")):
            return SyntaxFlaw(stop.line, "a comma has no value before it", "remove it")
        problem = f"a value can't start with {mark} unless it is quoted"
        return SyntaxFlaw(stop.line, problem, "put the whole value in quotes, as in count: '*'")
    return None


def _missing_space_flaw(stop: _ParserStop) -> SyntaxFlaw | None:
    """Return the flaw of a colon without a space after it."""
    for line in reversed(stop.around):
        if _STICKS.match(stop.text(line)):
            return SyntaxFlaw(
                line, "a space is missing after the colon", "add one, as in key: value"
            )
    return None


def _second_colon_flaw(stop: _ParserStop) -> SyntaxFlaw | None:
    """Return the flaw of a colon in a value, of a missing key, or of indentation."""
    if "mapping values" not in stop.problem:
        return None
    if _TWICE.match(stop.here):
        problem = "a value contains a colon followed by a space"
        return SyntaxFlaw(stop.line, problem, "put the whole value in quotes")
    before = stop.around[-1]
    if ":" not in stop.text(before):  # the parser reads both lines as one value
        return SyntaxFlaw(before, NO_KEY, A_KEY)
    problem = "the line is indented deeper than the lines that it belongs to"
    return SyntaxFlaw(stop.line, problem, "indent all keys of a mapping by the same amount")


def _missing_key_flaw(stop: _ParserStop) -> SyntaxFlaw | None:
    """Return the flaw of a key without a value, or of a value without a key."""
    if "unexpected ':'" in stop.problem:
        return SyntaxFlaw(stop.line, "a key has no value", "write it after the colon and a space")
    if "expected ':'" not in stop.problem:
        return None
    return SyntaxFlaw(stop.start, NO_KEY, A_KEY)


def _indentation_flaw(stop: _ParserStop) -> SyntaxFlaw | None:
    """Return the flaw of a line that is not indented like its neighbours."""
    text = stop.here
    if "'-' indicator" in stop.problem:
        problem = "a key is among list items, which start with a dash"
        return SyntaxFlaw(stop.line, problem, "write either a list or a mapping")
    if "expected key" not in stop.problem:
        return None
    if text.lstrip().startswith("- "):
        problem = "a list item is among keys"
        return SyntaxFlaw(stop.line, problem, "write either a list or a mapping")
    if stop.column > len(text) - len(text.lstrip()):
        return SyntaxFlaw(stop.line, "there is more text after the end of the value")
    problem = "the line is not indented like the lines that it belongs to"
    return SyntaxFlaw(stop.line, problem, "indent all keys of a mapping by the same amount")


RULES: tuple[Callable[[_ParserStop], SyntaxFlaw | None], ...] = (
    _indentation_character_flaw,
    _open_quote_flaw,
    _text_after_quote_flaw,
    _unquoted_variable_flaw,
    _open_bracket_flaw,
    _dash_flaw,
    _start_character_flaw,
    _missing_space_flaw,
    _second_colon_flaw,
    _missing_key_flaw,
    _indentation_flaw,
)
"""The rules in the order in which they are tried.

Rules for certain mistakes come first, then rules for flaws that another mistake may have caused.
"""
