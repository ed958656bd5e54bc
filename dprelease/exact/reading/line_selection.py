"""Select the lines of a text file that hold rows: without header, comments and notes.

The selection depends on declared keys of the source, on line numbers and on the beginnings of
lines. A comment is recognized by its own line. The notes below a table begin at the last line that
begins with the declared text, so that no row above can end the table.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import dropwhile, islice
from typing import Any

from dprelease.schema.source_texts import UTF_8
from dprelease.schema.source_types.source import Source

HEAD_LIMIT = 1 << 20
"""Number of bytes at the beginning of a file in which its header is looked for."""

MOST_NOTES = 1000
"""Maximum number of lines of the notes below a table."""


class MissingNotesError(OSError):
    """A file lacks the notes that its source declares; the argument is the key, such as `until`."""


MOST_WIDTHS, FEWEST_WIDTHS = 100, 2
"""How many of the first rows are compared with the header, and how many are needed for that."""

LONGEST_LINE = 1 << 26

END_MARK = "\x1a"
"""The character ^Z, by which old programs end a file."""

NO_LINE = (b"", END_MARK.encode())
"""The texts of lines that are no rows in any file."""


@dataclass(frozen=True, slots=True)
class LineSelection:
    """Which lines of a text file are rows, in a text in UTF-8 with line feeds.

    `header`: the number of the header's line, or of its lines, or a name in the header; None for
    the first line that is neither empty nor left out. `has_header`: whether the file has a header.
    `skipped`: the numbers of lines that are left out. `comments`: the beginnings of lines that are
    left out. `until`: the beginning of the first line of the notes below the rows. `notes`: how
    many of the last lines are no rows. The other fields are those of the CSV dialect.
    """

    header: int | str | tuple[int, ...] | None
    has_header: bool
    skipped: frozenset[int]
    comments: tuple[bytes, ...]
    until: bytes | None
    notes: int
    delimiter: str
    quote: str
    escape: str

    @classmethod
    def of(cls, source: Source) -> LineSelection:
        """Return the selection that a source declares."""
        is_first = source.header is None and not source.skip and not source.comment
        return cls(
            1 if is_first else source.header,
            source.has_header,
            frozenset(source.skip),
            tuple(text.encode(UTF_8) for text in source.comment),
            None if source.until is None else source.until.encode(UTF_8),
            source.footer,
            source.separator,
            source.quote_character,
            source.escape or "",
        )

    @property
    def is_whole(self) -> bool:
        """Return whether all lines are rows, except for a header in the first line."""
        selects = self.skipped or self.comments or self.until is not None or self.notes
        return not selects and (self.header == 1 or not self.has_header)

    @property
    def dialect(self) -> dict[str, Any]:
        """Return the options by which Python's module csv reads records."""
        return csv_options(self.delimiter, self.quote, self.escape)

    def header_names(self, parts: Iterable[bytes]) -> list[str]:
        """Return the cells of the header; empty if the first bytes of the text have none.

        Raises
        ------
        ValueError
            If the header can't be read.
        """
        try:
            return self._read_header(TextLines(first_bytes(parts)))
        except csv.Error as error:
            raise ValueError("the header can't be divided into fields") from error

    def first_widths(self, parts: Iterable[bytes]) -> list[int]:
        """Return the number of fields of each of the first rows; empty if they can't be parsed.

        Empty lines, and the last line if it may be incomplete, are left out.
        """
        pieces = self._below_header(TextLines(first_bytes(parts)))
        return self._field_counts(pieces, MOST_WIDTHS, are_cut=True)

    def widths(self, text: str) -> list[int]:
        """Return the number of fields of each row of a whole text, in which empty lines are none.

        The list is empty if the rows can't be parsed.
        """
        return self._field_counts(self.rows(iter([text.encode(UTF_8)])), None, are_cut=False)

    def _field_counts(
        self, pieces: Iterable[bytes], most: int | None, *, are_cut: bool
    ) -> list[int]:
        """Return the number of fields of the first records; the last line may be cut off."""
        lines = (line for piece in pieces for line in piece.splitlines(keepends=True))
        whole = (line for line in lines if line.endswith(b"\n") or not are_cut)
        # Only fields are counted, so bytes that are no UTF-8 do no harm here.
        texts = (line.decode(UTF_8, "surrogateescape") for line in whole)
        records = csv.reader(texts, **self.dialect)
        try:
            return [len(one) for one in islice(records, most) if one and one != [END_MARK]]
        except csv.Error:
            return []

    def rows(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the lines of all rows, in pieces.

        Raises
        ------
        MissingNotesError
            If no line among the last ones begins with `until`, or fewer lines than `footer` are
            left.
        OSError
            If a line below a row is skipped.
        """
        pieces = self._below_header(TextLines(parts))
        return self._without_notes(pieces) if self.until is not None or self.notes else pieces

    def _below_header(self, lines: TextLines) -> Iterator[bytes]:
        """Yield the lines below the header, without comments, in pieces."""
        if self.has_header:
            self._read_header(lines)
        # Below a row, the row of which person is left out would depend on the rows before it.
        below = [number for number in self.skipped if number > lines.number]
        if max(below, default=0) > lines.number + len(below):
            raise OSError("`skip` has the number of a line below the first row")
        for _ in below:
            next(lines, None)
        pieces = lines.rest()
        return self._without_comments(pieces) if self.comments else pieces

    def _read_header(self, lines: TextLines) -> list[str]:
        """Return the cells of the header; consume its lines, and those above it."""
        left: Iterator[tuple[int, bytes]] = (one for one in lines if one[0] not in self.skipped)
        if isinstance(self.header, tuple):
            last, numbers = self.header[-1], {*self.header}
            above = (line for number, line in islice(lines, last) if number in numbers)
            rows = csv.reader((line.decode(UTF_8) for line in above), strict=True, **self.dialect)
            return join_header_rows([*rows])
        if isinstance(self.header, int):
            first = self.header
            left = dropwhile(lambda line: line[0] < first, left)
        else:
            left = (line for line in left if not self._is_between(line[1]))
        if isinstance(self.header, str):
            texts = (line.decode(UTF_8, "surrogateescape") for _, line in left)
            records = csv.reader(texts, **self.dialect)
            return next((record for record in records if self.header in record), [])
        texts = (line.decode(UTF_8) for _, line in left)
        return next(csv.reader(texts, strict=True, **self.dialect), [])

    def _is_between(self, line: bytes) -> bool:
        """Return whether a line above the header is empty or a comment."""
        return not line.strip() or line.startswith(self.comments or (b"\n",))

    def _without_comments(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the lines that are no comments; a line inside of a quoted text is none."""
        signs = [b"\n" + comment for comment in self.comments]
        quote = self.quote.encode()
        is_quoted = False
        for piece in pieces:
            has_comments = piece.startswith(self.comments) or any(sign in piece for sign in signs)
            if not has_comments and not (quote and quote in piece):
                yield piece
                continue
            rows = []
            for line in piece.splitlines(keepends=True):
                if is_quoted or not line.startswith(self.comments):
                    is_quoted = self._is_quoted_after(line, is_quoted)
                    rows.append(line)
            yield b"".join(rows)

    def _is_quoted_after(self, line: bytes, is_quoted: bool) -> bool:
        """Return whether the text after a line is inside quotes, which open at a field's start."""
        quote, delimiter, escape = (
            self.quote.encode(),
            self.delimiter.encode(),
            self.escape.encode(),
        )
        if not quote or quote not in line:
            return is_quoted
        # As the engine does: after a quoted text and blanks, another quote continues the text.
        opening, again, place = (*(re.compile(b + re.escape(quote)) for b in (b" ?", b" +")), 0)
        while True:
            if not is_quoted:
                while not (opened := opening.match(line, place)):
                    place = line.find(delimiter, place) + 1
                    if not place:
                        return False
                place = opened.end()
            place = _closing_quote(line, place, quote, escape)
            if place < 0:
                return True
            reopened = None if escape else again.match(line, place)
            is_quoted = reopened is not None
            place = reopened.end() if reopened else line.find(delimiter, place) + 1
            if not place:
                return False

    def _without_notes(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the lines above the notes at the end.

        Empty lines, and a ^Z, are notes if they stand at the end or above the line of `until`.
        """
        held: deque[bytes] = deque()
        for piece in pieces:
            held.append(piece)
            # A piece is surely above the notes once the pieces behind it have more lines than notes
            # can.
            while sum(one.count(b"\n") for one in islice(held, 1, None)) > MOST_NOTES:
                yield held.popleft()
        lines = b"".join(held).splitlines(keepends=True)
        yield b"".join(lines[:-MOST_NOTES])
        last = lines[-MOST_NOTES:]
        if self.until is not None:
            starts = (self.until, self.quote.encode() + self.until)
            while last and not last[-1].startswith(starts):
                last.pop()
            if not last:
                raise MissingNotesError("until")
            last.pop()
        while last and last[-1].strip() in NO_LINE:
            last.pop()
        if len(last) < self.notes:
            raise MissingNotesError("footer")
        yield b"".join(last[: len(last) - self.notes])


def join_header_rows(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the names of columns whose header has several rows, joined by _.

    Of merged cells, only the first has a text. So an empty cell has the text of the cell to the
    left, unless that one has no text below it, which makes it a name of its own.
    """
    width = max(map(len, rows), default=0)
    texts = [[*(cell.strip() for cell in row), *[""] * (width - len(row))] for row in rows]
    for number, row in enumerate(texts[:-1]):
        for place in range(1, width):
            has_more_below = any(below[place - 1] for below in texts[number + 1 :])
            if not row[place] and has_more_below:
                row[place] = row[place - 1]
    return ["_".join(filter(None, parts)) for parts in zip(*texts, strict=True)]


def csv_options(delimiter: str, quote: str, escape: str) -> dict[str, Any]:
    """Return the options by which Python's module csv reads records; empty for no such sign."""
    return {
        "delimiter": delimiter,
        "quotechar": quote or None,
        "quoting": csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
        "escapechar": escape or None if quote else None,
        "doublequote": not escape,
    }


def _closing_quote(line: bytes, place: int, quote: bytes, escape: bytes) -> int:
    """Return the place after the quote that ends a quoted text; -1 if the line does not end it."""
    while (place := line.find(quote, place)) >= 0:
        if escape:
            first = place
            while line[first - 1 : first] == escape:
                first -= 1
            if (place - first) % 2 == 0:
                return place + 1
            place += 1
        elif line.startswith(quote, place + 1):
            place += 2
        else:
            return place + 1
    return -1


def common_width(widths: Sequence[int], header: int, *, pads: bool) -> int | None:
    """Return the most frequent number of fields of rows none of which fits the header; or None.

    `pads`: whether rows fit that lack their last fields, or that have one more.
    """
    if len(widths) < FEWEST_WIDTHS:
        return None
    if any(width == header or (pads and width <= header + 1) for width in widths):
        return None
    return Counter(widths).most_common(1)[0][0]


class TextLines:
    """The lines of a text, each after its number, and then the rest of the text in pieces."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self._pieces = whole_lines(parts)
        self._lines: deque[bytes] = deque()
        self.number = 0
        """The number of the last line that was taken."""

    def __iter__(self) -> TextLines:
        """Return the lines themselves, which can be taken once."""
        return self

    def __next__(self) -> tuple[int, bytes]:
        """Return the next line with its line feed."""
        while not self._lines:
            self._lines.extend(next(self._pieces).splitlines(keepends=True))
        self.number += 1
        return self.number, self._lines.popleft()

    def rest(self) -> Iterator[bytes]:
        """Yield all lines that were not taken, in pieces of whole lines."""
        yield b"".join(self._lines)
        yield from self._pieces


def whole_lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a text in pieces of whole lines; a line that is too long to be read is divided."""
    rest = b""
    for part in parts:
        lines, feed, end = part.rpartition(b"\n")
        if feed or len(rest) > LONGEST_LINE:
            yield rest + lines + feed
            rest = b""
        rest += end
    yield rest


def first_bytes(parts: Iterable[bytes], limit: int = HEAD_LIMIT) -> Iterator[bytes]:
    """Yield parts of a text until they have so many bytes."""
    size = 0
    for part in parts:
        yield part[: limit - size]
        size += len(part)
        if size >= limit:
            return
