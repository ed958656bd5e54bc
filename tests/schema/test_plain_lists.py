"""Long lists are read as any other YAML, and cost a few events of the parser."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from dprelease.errors import DeclarationError, DpReleaseError, Place
from dprelease.schema.model import Files, read_beside, validate
from dprelease.schema.table import Table
from dprelease.schema.yaml_text import reader
from dprelease.schema.yaml_text.plain_lists import (
    IN_BRACKETS,
    LEAST,
    STAND_IN,
    Runs,
    _in_brackets,
    _is_simple,
    _run,
    shortened,
)
from dprelease.schema.yaml_text.reader import Document, KeyPath, Plain
from tests.covering import examples

HERE = Path("file.yaml")
FILES = Files(read_beside(HERE.parent))
LIST = "a: [{}]\n"
DASHES = "a:\n  - {}\n"
SOUND = [f"C{i:04}" for i in range(LEAST + 8)]
QUOTED = [f'"{word}, or so"' for word in SOUND]
BETWEEN = (", ", ",", ",\n  ", " ,", "\n  - ", "\n    - ", "  \n  - ", "\n- ")
PLACES = (
    LIST,
    DASHES,
    "a:\n- {}\nb: 1\n",
    "a: [{}\n",
    "a: [x, {}, {{y: z}}, w]\nb: c\n",
    "a: [[{}], {}]\nb: [{}]\n",
    "a:\n  - x: 1\n  - {}\n  - [y]\nb:\n",
    "a: {{b: [{}]}}\na: [{}]\n",
    "a: {{x, {}, y}}\n",
    "a: '[{}]'\n",
    'a: "[{}]"\n',
    "a: ['{}', x]\n",
    "a: |\n  - {}\nb: [${{x}}]\n",
    "a: >\n  [{}]\nb:\n",
    "a: x\n  - {}\n",
    "a: x\n  [{}]\n",
    "a: b # [{}]\nc: d\n",
    "# - {}\na: 1\n",
    "[{}]: a\n",
    "a: [{}]: b\n",
    "a: [x\n  {}, y]\n",
    "a: [x, {}\n  y]\n",
    "a: [x, {}: y]\n",
    "a: &b [{}]\nc: *b\n",
    "a: - {}\n",
    "a: [{}] b\n",
    "a: 1\n---\n- {}\n",
    f"a: [{STAND_IN}0, {{{{x: y}}}}, {{}}]\n",
    f'a: ["{STAND_IN}0", {{{{x: y}}}}, {{}}]\n'.replace("_", "\\x5f"),
)
ODD = [
    *("null", "~", "", "''", "-5", "- 5", "New York", "O'Brien", "'it''s'", '"\\x41"', "a: b"),
    *("a:b", "a #b", "#b", "*x", "&x", "!t", "{b: c}", "[d", "]", "'", '"', "?", "? x", "|"),
    *("${x}", "b  c", "x'", "...", "---", "-", "'null'", "<<", "\x85", "\r", "%d", "@e", "b - c"),
    *("\tb", "ä b"),
]


def read(text: str, *, shortly: bool) -> object:
    """Return what a text is read as, or why it is not."""
    try:
        found = reader.parse(text, HERE) if shortly else reader._built(Runs(text), text, HERE)
    except DeclarationError as error:
        return str(error)
    findings = {keys: str(error) for keys, error in found.findings.items()}
    return found.text, found.values, [*places(found, found.values)], findings


def places(found: Document, value: Plain, keys: KeyPath = ()) -> Iterator[tuple[KeyPath, Place]]:
    """Yield the place of every value."""
    yield keys, found.place(*keys)
    parts: Iterable[tuple[str | int, Plain]] = ()
    if isinstance(value, (dict, list)):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in parts:
        yield from places(found, part, (*keys, key))


@given(
    st.sampled_from(PLACES),
    st.sampled_from((SOUND, QUOTED)),
    st.lists(st.tuples(st.integers(0, len(SOUND)), st.sampled_from(ODD)), max_size=2),
    st.sampled_from(BETWEEN),
)
@example(PLACES[-1], SOUND, [], ", ")
@example(PLACES[-2], SOUND, [], ", ")
@example(LIST, SOUND, [(20, "a #b")], ",\n  ")
@examples(400)
def test_a_list_is_what_it_is_item_by_item(
    place: str, items: list[str], odd: list[tuple[int, str]], between: str
) -> None:
    """Whatever stands in it or around it: its values, its lines, what is wrong, and where."""
    words = list(items)
    for at, word in odd:
        words.insert(at, word)
    text = place.replace("{}", between.join(words)).replace("{{", "{").replace("}}", "}")
    assert read(text, shortly=True) == read(text, shortly=False)


WORDS = st.sampled_from(["a", "B1_", "x.y", "O'Neill", "New York", "Null", "null", "0"])
PARTS = WORDS | st.sampled_from(["-a", "- a", ".a", "'a", "(a", "a ", " a", "", "a,b", "a:", "\na"])


@given(st.lists(WORDS, min_size=LEAST, max_size=LEAST + 2), st.lists(PARTS, max_size=2), st.data())
@examples(400)
def test_what_is_told_without_a_pattern(
    words: list[str], odd: list[str], data: st.DataObject
) -> None:
    """Items that are taken for simple are those of the pattern; plain ones are, but for none."""
    items = list(words)
    for word in odd:
        items.insert(data.draw(st.integers(0, len(items))), word)
    text = ", ".join(items)
    match = re.match(IN_BRACKETS, f"[{text}]")
    simple = _is_simple(text)
    if simple:
        assert match is not None
        assert match["items"] == text
        assert _run(match, in_brackets=True).items == text.split(", ")
    if not odd and "null" not in words:
        assert simple


@given(st.text(alphabet="[]a, ", max_size=30))
@example("]" * 30)
@example("[" * 15 + "]" * 15)
def test_brackets_are_found_in_one_pass(text: str) -> None:
    """No letter is looked at as part of two lists, or a text of brackets would take for ever."""
    spans = [*_in_brackets(text)]
    assert [text[a:b] for a, b in spans] == re.findall(r"\[([^\[\]]*)(?=\])", text)
    assert all(b < c for (_, b), (c, _) in pairwise(spans))


@pytest.mark.parametrize("text", [LIST, DASHES], ids=["brackets", "dashes"])
@pytest.mark.parametrize("items", [SOUND, QUOTED], ids=["plain", "quoted"])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_long_list_takes_few_events(
    text: str, items: list[str], wrapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many items it has, each plain or quoted, in brackets or by dashes, wrapped or not."""
    events = 0
    parse = yaml.parse

    def counted(*given: object, **more: object) -> object:
        nonlocal events
        for event in parse(*given, **more):  # type: ignore[no-untyped-call]
            events += 1
            yield event

    monkeypatch.setattr(yaml, "parse", counted)
    between = "\n  - " if text == DASHES else ",\n  " if wrapped else ", "
    found = reader.parse(text.format(between.join(items * 50)), HERE)
    assert found.values["a"] == [item.strip('"') for item in items * 50]
    assert events < 20


@pytest.mark.parametrize("odd", ["x" * 1001, "a\0b", "\ud800", ["b"], {"b": "c"}, 1, None, True])
def test_a_value_that_is_none_is_told_by_itself(odd: object) -> None:
    """Of a list that is checked at once, as of the list of that one value; a number is a text."""
    found = []
    for values in (SOUND, []):
        column = {"type": "category", "values": [*values, odd]}
        document = Document(HERE, "", {"table": "t", "columns": {"a": column}}, {})
        try:
            made = validate(Table, document, FILES)
            assert getattr(made.columns["a"], "values", ()) == (*values, "1")
        except DpReleaseError as error:
            found += [(type(error), str(error).replace(f"[{len(values)}]", "[]"))]
    assert type(odd) is int or (len(found) == 2 and found[0] == found[1])


def test_items_left_out_count_as_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "NODE_LIMIT", 100)
    assert shortened(LIST.format(", ".join(SOUND * 3))).left
    with pytest.raises(DeclarationError, match="DP-YAML-006"):
        reader.parse(LIST.format(", ".join(SOUND * 3)), HERE)
