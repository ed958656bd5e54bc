"""Long lists of words, read by patterns: a parser makes an event and two marks of each item.

A run of items is replaced by one word before a text is parsed, and that word by the items
afterwards. Where the parser finds the word as anything but an item of such a list, as in a comment
or in quotes, the text has to be parsed as it stands: what is read is the same in either way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import partial
from string import ascii_letters, digits

import yaml

from dprelease.system.late_dataclasses import dataclass

LEAST = 32
"""Items from which on a run is worth it."""

STAND_IN = "dp_items_"

EMPTY = frozenset({"", "~", "null"})
"""Plain texts that say that there is no value."""

_PLAIN = r"-?\w[\w.'/()&+-]*+(?: [\w.'/()&+-]++)*+"
_SIMPLE = r"""[\w .,;:/()&+-]*+"""
_ITEM = rf"""(?>{_PLAIN}|"{_SIMPLE}"|'{_SIMPLE}')"""
ITEM = rf"""({_PLAIN})|"({_SIMPLE})"|'({_SIMPLE})'"""
"""An item: a plain word, or a quoted one without anything that is escaped."""

IN_BRACKETS = (
    rf"(?P<start>[\[,][ \n]*)(?P<items>{_ITEM}(?:,[ \n]*{_ITEM}){{{LEAST - 1},}})(?=[ \n]*[,\]])"
)
BY_DASHES = (
    r"(?m)(?P<start>^(?P<indent> *)- )"
    rf"(?P<items>{_ITEM} *(?:\n(?P=indent)- {_ITEM} *){{{LEAST - 1},}})(?=\n|\Z)"
)
"""Lists in their two forms; compiled where there may be one, which takes a millisecond."""

WORD = (ascii_letters + digits + "_").encode()
INSIDE = b".'/()&+-"
KINDS = bytes.maketrans(WORD + INSIDE, b"w" * len(WORD) + b"." * len(INSIDE))
"""Of bytes in ASCII that a plain word may have: those that one starts with, and all others."""


@dataclass(frozen=True, slots=True)
class Run:
    """Items that stand one after the other in a list.

    `lines`: on which each stands, counted from the first; nothing where all stand on one.
    """

    items: list[str | None]
    lines: Sequence[int]

    @property
    def breaks(self) -> int:
        """Return how many lines behind the first the last one stands."""
        return self.lines[-1] if self.lines else 0


@dataclass(slots=True)
class Runs:
    """A text, and the runs of items that it has words for, until these are met."""

    text: str
    left: dict[str, Run] = field(default_factory=dict)

    @property
    def items(self) -> int:
        """Return how many items are left out of the text."""
        return sum(len(run.items) - 1 for run in self.left.values())

    def met(self, item: yaml.Event) -> Run | None:
        """Return the run that an item of a list stands for, which is met once; None if for none."""
        # In quotes the word could be spelled so that the text does not have it.
        if not isinstance(item, yaml.ScalarEvent) or item.style:
            return None
        return self.left.pop(item.value, None)


def shortened(text: str) -> Runs:
    """Return a text with a word for each long run of items, on as many lines as before."""
    runs = Runs(text)
    if STAND_IN not in text:
        if text.count(", ") >= LEAST - 1:
            _replace_simple(runs)
        if runs.text.count(",") >= LEAST - 1:
            runs.text = re.sub(IN_BRACKETS, partial(_replaced, runs, ","), runs.text)
        if text.count("- ") >= LEAST:
            runs.text = re.sub(BY_DASHES, partial(_replaced, runs, "-"), runs.text)
    return runs


def _replace_simple(runs: Runs) -> None:
    """Replace long lists of simple words in brackets without a pattern, in half the time."""
    text, at, parts = runs.text, 0, []
    for start, end in _in_brackets(text):
        items = text[start:end]
        if _is_simple(items):
            name = f"{STAND_IN}{len(runs.left)}"
            runs.left[name] = Run([*items.split(", ")], ())
            parts += [text[at:start], name]
            at = end
    runs.text = "".join([*parts, text[at:]])


def _in_brackets(text: str) -> Iterator[tuple[int, int]]:
    """Yield where what stands in brackets, and has none in it, begins and ends; in one pass."""
    at = 0
    while (end := text.find("]", at)) >= 0:
        start = text.rfind("[", at, end) + 1
        if start:
            yield start, end
        at = end + 1


def _is_simple(items: str) -> bool:
    """Return whether these are many plain words, none of them empty, on one line, in ASCII."""
    if items.count(", ") < LEAST - 1 or not items.isascii():
        return False
    kinds = items.encode().translate(KINDS)
    if kinds.translate(None, b"w., ") or b"  " in kinds or b" ," in kinds or kinds.endswith(b" "):
        return False
    starts = kinds.startswith(b"w") and kinds.count(b", w") == kinds.count(b",")
    return starts and ", null," not in f", {items},"


def _replaced(runs: Runs, mark: str, match: re.Match[str]) -> str:
    name, run = f"{STAND_IN}{len(runs.left)}", _run(match, in_brackets=mark == ",")
    runs.left[name] = run
    return f"{match['start']}{name}{chr(10) * run.breaks}"


def _run(match: re.Match[str], *, in_brackets: bool) -> Run:
    text = match["items"]
    plain = '"' not in text and "'" not in text
    if plain and (not in_brackets or "\n" not in text):
        between = "," if in_brackets else f"\n{match['indent']}- "
        words: list[str | None] = [*map(str.strip, text.split(between))]
        lines = () if in_brackets else range(len(words))
        if EMPTY.isdisjoint(words):
            return Run(words, lines)
        return Run([None if word in EMPTY else word for word in words], lines)
    items: list[str | None] = []
    places = []
    line = at = 0
    for found in re.finditer(ITEM, text):
        line, at = line + text.count("\n", at, found.start()), found.start()
        word = found[found.lastindex or 0]
        items.append(None if word in EMPTY and found.lastindex == 1 else word)
        places.append(line)
    return Run(items, places)
