"""No line of a CSV file affects more other lines than in Python's csv module."""

from __future__ import annotations

import csv
import gzip
import random
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.exact.reading.plain import TextDecoding
from dprelease.exact.sources.csv_reader import READER
from dprelease.exact.sources.source_reader import Opening
from tests.covering import examples, thinned
from tests.exact.build import ask, declare, exact

ROWS = {"rows": {"count": "*"}}
KEYS = [f"k{i}" for i in range(40)]
COLUMNS = {"k": {"type": "category", "values": KEYS}}


def row_counts(path: Path) -> list[int]:
    """Return how many rows of each key we read."""
    found: list[int] = exact(ask(declare(COLUMNS, source=str(path)), ROWS, ["k"]), None)["rows"]
    return [int(number) for number in found]


def by_python(path: Path) -> list[int]:
    """Return how many rows of each key the csv module reads, those of two fields."""
    with path.open(newline="", encoding="utf-8") as file:
        keys = [row[0] for row in csv.reader(file) if len(row) == 2]
    return [keys.count(key) for key in KEYS]


@pytest.mark.share(0.4)
@pytest.mark.parametrize("quoted", [False, True])
@given(
    line=st.lists(
        st.sampled_from(['"', '"', ",", "z", "\\", "\n", "'", '""', "\0", "é"]), max_size=9
    )
)
def test_damaged_line_loses_no_more_rows_than_in_python(
    line: list[str], quoted: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A quote that is not closed takes lines that follow, a quote inside of a text does not.

    Blanks are left out: the engine skips them before a quote.
    """
    rows = [f'"{key}","1"' if quoted else f"{key},1" for key in KEYS]
    path = tmp_path_factory.mktemp("lines") / "t.csv"
    text = "\n".join(["k,n", *rows[:5], "".join(line), *rows[5:], ""])
    path.write_text(text, encoding="utf-8", newline="")
    ours, theirs = row_counts(path), by_python(path)
    assert all(mine >= other for mine, other in zip(ours, theirs, strict=True)), line
    assert max(ours) == 1


@pytest.mark.parametrize("text", ['5" screen', 'C"T', 'said \\"hi'])
def test_undoubled_quote_affects_only_its_own_row(text: str, tmp_path: Path) -> None:
    """If it opened a quoted text, all rows below would be lost."""
    rows = [f'"{key}","note"' for key in KEYS]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["k,n", *rows[:5], f'"k0","{text}"', *rows[5:], ""]))
    assert row_counts(path)[1:] == [1] * (len(KEYS) - 1)


WIDE = st.integers(1, 4)
DIALECTS = [(",", '"'), (";", '"'), ("\t", "'"), ("|", '"')]


def fields(line: str, delimiter: str, quote: str) -> list[str] | None:
    """Return the fields of one line, letter by letter; None for a quote that is out of place."""
    found, at = [], 0
    while True:
        text = ""
        if line[at : at + 1] == quote:
            at += 1
            while line[at : at + 1] != quote or line[at + 1 : at + 2] == quote:
                if at >= len(line):
                    return None
                text += line[at]
                at += 2 if line[at] == quote else 1
            at += 1
        else:
            while at < len(line) and line[at] != delimiter:
                text += line[at]
                at += 1
        found.append(text)
        if at == len(line):
            return found
        if line[at] != delimiter:
            return None
        at += 1


@pytest.mark.share(0.4)
@pytest.mark.parametrize(
    ("dialect", "packed"), thinned(DIALECTS, ["none", "gzip"], together=1), ids=str
)
@examples(8, in_audits=1000)
@given(data=st.data(), width=WIDE, ends=st.sampled_from(["\n", "\r\n", "\r"]), last=st.booleans())
def test_lines_with_as_many_fields_as_the_header_count(
    dialect: tuple[str, str],
    packed: str,
    data: st.DataObject,
    width: int,
    ends: str,
    last: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Whatever is in the fields and in other lines; empty lines don't count."""
    delimiter, quote = dialect
    cells = ["a", "", "NA", "b", quote * 2, f"{quote}c{quote}", f"{quote}x{delimiter}{quote}"]
    cells += [f"{quote}NA{quote}", f"{quote}y{quote * 2}{quote}", " ", "é", f"{quote}q{quote}r"]
    texts = st.lists(st.sampled_from(cells), min_size=max(width - 1, 0), max_size=width + 2)
    lines = [delimiter.join(line) for line in data.draw(st.lists(texts, max_size=5))]
    lines.insert(0, delimiter.join("a" * width))  # a file is refused if no row fits its header
    names = [f"c{i}" for i in range(width)]
    text = ends.join([delimiter.join(names), *lines]) + (ends if last else "")
    path = tmp_path_factory.mktemp("lines") / ("t.csv.gz" if packed == "gzip" else "t.csv")
    path.write_bytes(gzip.compress(text.encode()) if packed == "gzip" else text.encode())
    whole = [fields(line, delimiter, quote) for line in lines if line]
    rows = [row for row in whole if row is not None and len(row) == width]
    wanted = [[None if cell in ("", "NA") else cell for cell in row] for row in rows]
    for read in (names, names[:1], names[-1:]):
        places = [names.index(name) for name in read]
        assert rows_of(path, dialect, read) == [[row[i] for i in places] for row in wanted], lines


def rows_of(path: Path, dialect: tuple[str, str], names: list[str]) -> list[list[str | None]]:
    """Return the rows that we read, of a plain file or of a copy."""
    source = {"path": str(path), "delimiter": dialect[0], "quote": dialect[1], "nulls": ["", "NA"]}
    declared = declare({name: {"type": "text"} for name in names}, source=source)
    assert declared.table.source is not None
    opened = READER.open(declared, declared.table.source, Opening())
    relation, plain = opened.relation, path.with_name("plain")
    if opened.reader is not None:
        opened.reader.packing.write(path, plain)
        relation = opened.reader.relation([plain])
    columns = ", ".join(f'"{name}"' for name in names)
    with duckdb.connect() as connection:
        return [list(row) for row in connection.sql(f"SELECT {columns} FROM {relation}").fetchall()]


@pytest.mark.parametrize("line", ["k1,1,", 'k1,1,""', "k1,1,2", "k1", "", ",k1,1", "k1,1,,"])
def test_lines_with_a_wrong_number_of_fields_are_left_out(line: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"k,n\nk0,1\n{line}\nk2,1\nk3,\n")
    assert row_counts(path)[:5] == [1, 0, 1, 1, 0]


def test_column_may_have_the_name_of_the_internal_column(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("k,DP_MORE\nk0,1\nk1,1,\nk2,\n")
    assert row_counts(path)[:3] == [1, 0, 1]


def mixed_line_ends(seed: int) -> str:
    """Return rows of keys whose lines end in one way or another."""
    chosen = random.Random(seed)
    return "".join(f"{key},1{chosen.choice([chr(10), chr(13) + chr(10), chr(13)])}" for key in KEYS)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("packed", ["none", "gzip"])
def test_mixed_line_ends_are_read(seed: int, packed: str, tmp_path: Path) -> None:
    """Ends of lines are as in pandas; one that is not like the others would stop the engine."""
    data = ("k,n\n" + mixed_line_ends(seed)).encode()
    path = tmp_path / ("t.csv.gz" if packed == "gzip" else "t.csv")
    path.write_bytes(gzip.compress(data) if packed == "gzip" else data)
    assert row_counts(path) == [1] * len(KEYS)


@pytest.mark.parametrize("size", range(1, 8))
def test_line_end_may_span_two_chunks(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dprelease.exact.reading.plain.CHUNK", size)
    file, plain = tmp_path / "t.csv", tmp_path / "plain"
    file.write_bytes(b"a\r\nb\rc\n\r\n\r\r")
    TextDecoding(keeps_carriage_returns=False).write(file, plain)
    assert plain.read_bytes() == b"a\nb\nc\n\n\n\n"


def test_file_with_line_feeds_is_not_copied(tmp_path: Path) -> None:
    """A copy would need the same space again."""
    file, plain = tmp_path / "t.csv", tmp_path / "plain"
    file.write_bytes(b"a\nb\n")
    plain.touch()
    TextDecoding(keeps_carriage_returns=False).write(file, plain)
    assert plain.is_symlink()
    assert plain.resolve() == file.resolve()


def test_line_end_outside_quotes_starts_a_row(tmp_path: Path) -> None:
    """As the manual says of what is not protected: writers have to quote such texts."""
    path = tmp_path / "t.csv"
    path.write_bytes(b"k,n\nk0,1\nk1,x\rk2,1\n")
    assert row_counts(path)[:4] == [1, 1, 1, 0]
    path.write_bytes(b'k,n\nk0,1\nk1,"x\rk2,1"\n')
    assert row_counts(path)[:4] == [1, 1, 0, 0]


def test_line_with_the_dos_end_of_file_mark_is_no_row(tmp_path: Path) -> None:
    """Wherever it is: no other row decides whether it counts."""
    path = tmp_path / "t.csv"
    for text in ("k\nk1\n\x1a", "k\r\n\x1a\r\nk1\r\n", "k\nk1\n\x1a\n"):
        path.write_text(text, newline="")
        counts = ask(declare(COLUMNS, source=str(path)), ROWS)
        assert list(exact(counts, None)["rows"]) == [1]
        for more in ({"format": "fixed_width", "columns": {"k": [1, 3]}, "skip": 1},
                     {"names": ["k", "n"], "header": 1, "ragged": "pad"}):  # fmt: skip
            counts = ask(declare(COLUMNS, source={"path": str(path), **more}), ROWS)
            assert list(exact(counts, None)["rows"]) == [1]
