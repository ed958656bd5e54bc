"""Detect how the lines of a CSV file are laid out: delimiter, quotes, header, comments and notes.

Only `init` uses it. It proposes keys of `source`; the rows are then read by the statement of a run.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dprelease.exact.reading.line_selection import csv_options
from dprelease.schema.source_texts import MOST_LINES

KeyValue = str | int | list[str] | list[int] | dict[str, list[int]]
"""A value that `source` can have for one of its keys."""

DELIMITERS = (",", ";", "\t", "|")
MOST_RECORDS = 500
MOST_TITLES = 50
LEAST_NAMES = 3
"""Titles are recognized only above a header with so many names."""
COMMENT_SIGNS = ("##", "#", "//", "%")
ROW_NAME = "dp_row"
"""The proposed name of a column that rows have and the header lacks."""

NULL_TEXTS = frozenset({
    "", "na", "n/a", "n.a.", "<na>", "#n/a", "#na", "null", "(null)", "#null!", "nil", "none",
    "nan", "-", "--", "---", "\u2013", "\u2014", ".", "..", "...", ":", "?", "\\n", "nd", "n/d",
    "n.d.", "missing", "unknown", "not available", "not applicable", "no answer", "k.a.", "k. a.",
    "keine angabe", "sans réponse", "sin respuesta", "geen antwoord",
})  # fmt: skip
"""Texts for missing values, in lower case. No other content of a file is ever reported."""

END_WORDS = (
    "total", "totals", "grand total", "sum", "source", "sources", "note", "notes", "footnote",
    "footnotes", "legend", "copyright", "gesamt", "insgesamt", "summe", "quelle", "quellen",
    "hinweis", "hinweise", "anmerkung", "anmerkungen", "fussnote", "fußnote", "legende", "fuente",
    "nota", "notas", "fonte", "bron", "champ", "lecture", "remarque",
)  # fmt: skip
"""The words with which totals and notes below a table begin, in lower case."""

DAY = re.compile(r"[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}([ T][0-9:.]+)?")
PERIOD = re.compile(r"(19|20)[0-9]{2}([-/.][0-9]{2})?")
"""Texts of days, and of years and months."""

Record = tuple[int, list[str]]
"""The cells of a record, after the number of its first line."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """A way to divide lines into fields; `quote` is empty if there are no quotes."""

    delimiter: str
    quote: str
    escape: str = ""

    def records(self, lines: Sequence[str], most: int = MOST_RECORDS) -> list[Record]:
        """Return the first records that are not empty; up to the first that can't be parsed."""
        options = csv_options(self.delimiter, self.quote, self.escape)
        reader = csv.reader((f"{line}\n" for line in lines), **options)
        found: list[Record] = []
        before = 0
        try:
            for record in itertools.islice(reader, most):
                if record and (len(record) > 1 or record[0].strip()):
                    found.append((before + 1, record))
                before = reader.line_num
        except csv.Error:
            return found[:1]
        return found


def detect_csv_layout(text: str, separator: str, *, has_header: bool = True) -> dict[str, KeyValue]:
    """Return the keys of `source` for the lines of a text; only those that differ from defaults.

    `separator`: the delimiter by default. `has_header`: False if the file is known to have no
    header. The text has line feeds, and is complete up to its last line.
    """
    lines = text.split("\n")
    keys: dict[str, KeyValue] = {}
    # Such a line names the delimiter for Excel, above the header.
    declared = re.fullmatch(r"\ufeff?\"?sep=(.)\"?", lines[0], re.IGNORECASE)
    delimiters: tuple[str, ...] = DELIMITERS
    if declared:
        keys["skip"], delimiters = 1, (declared[1],)
        lines[0] = ""
    comment = _comment_sign(lines)
    plain_lines = lines
    if comment:
        plain_lines = [line for line in lines if not line.startswith(comment)]
        lines = ["" if line.startswith(comment) else line for line in lines]
        keys["comment"] = comment
    dialect, width = _best_dialect(lines, delimiters)
    keys |= {
        "delimiter": dialect.delimiter if dialect.delimiter != separator else "",
        "quote": {'"': "", "": "none"}.get(dialect.quote, dialect.quote),
        "escape": dialect.escape,
    }
    records = dialect.records(lines)
    header_keys = _header_keys(records, width, is_first_line=not declared and not comment)
    first = [cells for _, cells in records]
    is_first = bool(records) and header_keys.get("header", records[0][0]) == records[0][0]
    is_fixed_width = width == 1 and have_equal_lengths(lines)
    is_row = is_first and (is_fixed_width or is_row_of_values(first[0], first[1:]))
    if not has_header or is_row:
        names: list[str] = [f"column_{number}" for number in range(1, width + 1)]
        header_keys = {"ragged": header_keys.get("ragged", ""), "names": names}
    keys |= header_keys
    keys |= _notes_keys(dialect.records(plain_lines, most=len(lines)), width)
    return {key: value for key, value in keys.items() if value}


def _comment_sign(lines: Sequence[str]) -> str:
    """Return the sign with which the lines above the header begin; empty if there is none."""
    filled = [line for line in lines if line.strip()]
    sign = next((sign for sign in COMMENT_SIGNS if filled and filled[0].startswith(sign)), "")
    if not sign:
        return ""
    above = list(itertools.takewhile(lambda line: line.startswith(sign[0]), filled))
    if len(above) == len(filled):
        return ""
    # The names may be in the last comment, as in #chrom,position below lines with ##.
    last, below = above[-1], filled[len(above)]
    if last[:2] not in ("##", "# ") and any(
        last.count(d) == below.count(d) > 0 for d in DELIMITERS
    ):
        return "##" if len(above) > 1 and all(line.startswith("##") for line in above[:-1]) else ""
    return sign if all(line.startswith(sign) for line in above) else sign[0]


def _best_dialect(lines: Sequence[str], delimiters: Sequence[str]) -> tuple[Dialect, int]:
    """Return the dialect in which most records have the same width, and that width."""
    best: tuple[tuple[int, int, int], Dialect, int] | None = None
    for delimiter, (quote, escape) in itertools.product(delimiters, _likely_quotes(lines)):
        dialect = Dialect(delimiter, quote, escape)
        records = dialect.records(lines)
        widths = Counter(len(cells) for _, cells in records[1:] or records)
        width, alike = widths.most_common(1)[0] if widths else (0, 0)
        alike += len(records) > 1 and len(records[0][1]) == width
        # A delimiter that divides no line fits every line, so it must lose to all others.
        score = (alike * 1000 // len(records) if width > 1 else 0, width, alike)
        if best is None or score > best[0]:
            best = (score, dialect, width)
    if best is None:
        raise ValueError("there is no delimiter")
    return best[1], best[2]


def _likely_quotes(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Return the quotes to try, with their escape; the likelier first."""
    text = "\n".join(lines)
    singles = re.search(r"(?:^|[,;\t|])'[^'\n]*'(?=[,;\t|\n])", text, re.MULTILINE)
    if '"' not in text:
        return [("'", "")] if singles else [('"', "")]
    if re.search(r"\\[\"\\]", text) and not re.search(r'[^,;\t|\n]""[^,;\t|\n]', text):
        return [('"', "\\"), ('"', ""), ("", "")]
    return [('"', ""), ("", "")]


def has_quoted_fields(text: str, delimiter: str) -> bool:
    """Return whether a field of a text stands in quotes on one line."""
    end = re.escape(delimiter)
    return re.search(rf'(?:^|{end})"[^"\n]*"(?={end}|$)', text, re.MULTILINE) is not None


def _filled(cells: Iterable[str]) -> int:
    """Return the number of cells that are not empty."""
    return sum(1 for cell in cells if cell.strip())


def _header_keys(
    records: Sequence[Record], width: int, *, is_first_line: bool
) -> dict[str, KeyValue]:
    """Return the keys that say where the header is, and how its width differs from that of rows."""
    place = _header_place(records, width)
    if place is None:
        return {}
    number, names = records[place]
    if len({name.strip().casefold() for name in names if name.strip()}) < _filled(names):
        return {"header": number, "names": _numbered(names)}
    rows = [cells for _, cells in records[place + 1 :]]
    keys: dict[str, KeyValue] = {}
    if place or (is_first_line and number > 1):
        keys["header"] = number
    misfits = [cells for cells in rows if len(cells) != len(names)]
    if not misfits or len(misfits) < len(rows):
        return keys
    # Rows that lack fields do not end with a delimiter.
    wide = [cells for cells in rows if len(cells) > len(names)]
    ends = wide and all(len(cells) == len(names) + 1 and not cells[-1].strip() for cells in wide)
    if len(names) == width + 1 and not names[-1].strip():
        return {**keys, "ragged": "pad"}
    if ends:
        return {**keys, "ragged": "pad"}
    if len(names) == width - 1:
        return {"header": number, "names": [ROW_NAME, *names]}
    return keys


def _numbered(names: Sequence[str]) -> list[str]:
    """Return names with a number after each that occurred before, in upper or lower case."""
    found: list[str] = []
    for i, name in enumerate(names):
        text = " ".join(name.split()) or f"column_{i + 1}"
        known = {one.casefold() for one in found}
        numbers = (f"{text}_{number}" for number in itertools.count(2))
        free = itertools.chain([text], numbers)
        found.append(next(one for one in free if one.casefold() not in known))
    return found


def _header_place(records: Sequence[Record], width: int) -> int | None:
    """Return the index of the record that looks like the header; None without records.

    A record below others is the header only if it can hardly be a row of values. One that is as
    wide as the rows comes before one with a field less, as R writes it above rows with names.
    """
    if not records:
        return None
    if width < LEAST_NAMES and len(records[0][1]) >= width:
        return 0
    for least in (width, width - 1):
        wide = (
            place
            for place, (_, cells) in enumerate(records[:MOST_TITLES])
            if len(cells) >= least and 2 * _filled(cells) > width
        )
        place = next(wide, None)
        if place == 0:
            return 0
        if place is not None:
            cells, below = records[place][1], [row for _, row in records[place + 1 :]]
            # A delimiter may end each row but not the header, which is then a field shorter.
            if (least < width or cells[-1].strip()) and _are_names(cells, below):
                return place
    return 0


def _are_names(cells: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Return whether cells look like names: texts that all differ, above rows with other texts.

    Numbers and signs for missing values are no names.
    """
    names = [cell.strip() for cell in cells if cell.strip()]
    return (
        bool(below)
        and len(set(names)) == len(names)
        and not any(_is_number(name) or name.lower() in NULL_TEXTS for name in names)
        and any(_is_number(cell) for row in below for cell in row)
        and not any(
            one == other for row in below for one, other in zip(row, cells, strict=False) if one
        )
        and not is_row_of_values(cells, below)
    )


def has_names_below(header: Sequence[str], cells: Sequence[str]) -> bool:
    """Return whether a row looks like the second row of a header with merged cells.

    Of merged cells, only the first has a text, and all of them have one below; columns whose name
    is in the first row are empty in the second one.
    """
    pairs = [(name.strip(), cell.strip()) for name, cell in zip(header, cells, strict=False)]
    has_parts = any(not name and cell and pairs[i][1] for i, (name, cell) in enumerate(pairs[1:]))
    return has_parts and any(name and not cell for name, cell in pairs)


def is_row_of_values(cells: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Return whether cells look like the values of a row, which must not be shown as names.

    Names are neither numbers nor days, except for years or months in their order, and they occur in
    no row below, unless the whole header is repeated. Names with digits, such as Q1, have another
    pattern than all cells below. `cells` and rows have the same columns.
    """
    texts = [cell.strip() for cell in cells]
    numbers = [text for text in texts if _is_number(text) or DAY.fullmatch(text)]
    periods = [text for text in numbers if PERIOD.fullmatch(text)]
    are_periods = len(periods) == len(numbers) > 1 and periods == sorted({*periods})
    if numbers and not are_periods:
        return True
    others = [[cell.strip() for cell in row] for row in below]
    patterns = [_pattern(text) for text in texts]
    return any(
        one and (one == other or (pattern and pattern == _pattern(other)))
        for row in others
        if row != texts
        for one, pattern, other in zip(texts, patterns, row, strict=False)
    )


def have_equal_lengths(lines: Iterable[str]) -> bool:
    """Return whether lines with digits or blanks are equally long, as those of fixed width are."""
    filled = [line for line in lines if line.strip()]
    return (
        len(filled) > 1
        and len({len(line) for line in filled}) == 1
        and re.search("[0-9 ]", filled[0].strip()) is not None
    )


def _pattern(text: str) -> str:
    """Return the pattern of letters and digits of a text; empty without digits.

    Of a text with other characters, the numbers of letters, digits and words do not count: names
    and amounts differ in length.
    """
    if not any(map(str.isdigit, text)):
        return ""
    signs = re.sub(r"[^\W\d_]", "a", re.sub(r"\d", "0", text))
    if text.isalnum():
        return signs
    return re.sub(r"([0 ])\1+", r"\1", re.sub("a[-'. a]*a", "a", signs))


def _is_number(text: str) -> bool:
    """Return whether a text looks like a number, such as 1,234.5 or a year."""
    return re.fullmatch(r"\s*[+-]?[0-9][0-9.,' ]*%?\s*", text) is not None


def _notes_keys(records: Sequence[Record], width: int) -> dict[str, KeyValue]:
    """Return the number of the last lines that are no rows, and some of them as wide as the rows.

    These are totals, notes and lines of delimiters alone. Empty lines between them count, as they
    do for `footer`.
    """
    start = max(0, len(records) - MOST_TITLES)
    note = first_note([cells for _, cells in records[start:]], width)
    first = len(records) if note is None else start + note
    while first > 1 and not _filled(records[first - 1][1]):
        first -= 1  # lines of delimiters alone, as spreadsheets write them, are no rows either
    if not any(len(cells) == width for _, cells in records[first:]):
        return {}
    line, cells = records[-1]
    end = line + sum(cell.count("\n") for cell in cells)
    footer = end - records[first][0] + 1
    return {"footer": footer} if footer <= MOST_LINES else {}


def first_note(rows: Sequence[Sequence[str]], width: int) -> int | None:
    """Return the index of the row from which on the last rows are totals and notes; or None.

    `width`: the number of columns. In tables of several columns, a row with some words alone is a
    note, too.
    """
    for i, row in enumerate(rows):
        is_sentence = width >= LEAST_NAMES and _filled(row) == 1 and _is_sentence(row[0])
        if (is_sentence or _begins_notes(row)) and _end_notes(rows[i:]):
            return i
    return None


def _is_sentence(text: str) -> bool:
    """Return whether a text has so many words that it can hardly be an id."""
    return len(re.findall(r"[^\W\d_]{2,}", text)) >= LEAST_NAMES


def _begins_notes(cells: Sequence[str]) -> bool:
    """Return whether a record begins with a word of notes or totals."""
    word = re.split(r"[:.,(]|  ", cells[0].strip(), maxsplit=1)[0].strip().lower()
    return word in END_WORDS


def _end_notes(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether rows are notes: each is one text, or begins with a word of notes."""
    return all(_filled(cells) <= 1 or _begins_notes(cells) for cells in rows)
