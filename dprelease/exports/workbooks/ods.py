"""Write OpenDocument spreadsheets (ODF 1.3) with Python's standard library; compare two of them.

The rows of each sheet are kept until the workbook is saved, because the looks of all cells come
first in the file. The archive has no times, so that its bytes do not depend on a clock.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO
from xml.sax.saxutils import escape, quoteattr
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from dprelease.exports.names import xml_text
from dprelease.exports.workbooks.book import (
    GREY,
    MOST_WIDTH,
    WRAPPING,
    Book,
    Cell,
    ExactNumber,
    Look,
    Sheet,
    SheetLink,
    fit_into_cell,
    fitted_widths,
)
from dprelease.exports.workbooks.workbook import Workbooks

CHUNK = 1 << 20
"""Bytes of a part that are compared at once."""


class OpenDocument(Workbooks):
    """The format with OpenDocument spreadsheets."""

    name = ending = "ods"
    packages = ("zlib",)

    def new_book(self, title: str, author: str, language: str, scratch: Path | None) -> Book:
        """Return an empty workbook; `scratch`: a folder for the rows of a large workbook."""
        return OpenDocumentBook(title, author, language, scratch)

    def has_same_content(self, one: Path, other: Path) -> bool:
        """Return whether two spreadsheets have the same parts, whatever their compression is."""
        try:
            with ZipFile(one) as left, ZipFile(other) as right:
                sizes = [
                    [(part.filename, part.file_size) for part in each.infolist()]
                    for each in (left, right)
                ]
                return sizes[0] == sizes[1] and all(
                    mine == theirs
                    for name, _ in sizes[0]
                    for mine, theirs in zip_longest(_chunks(left, name), _chunks(right, name))
                )
        except (BadZipFile, zlib.error) as problem:
            raise ValueError("no archive") from problem


def _chunks(archive: ZipFile, name: str) -> Iterator[bytes]:
    """Yield the content of a part in pieces."""
    with archive.open(name) as part:
        while chunk := part.read(CHUNK):
            yield chunk


EXPORT = OpenDocument()


MIMETYPE = "application/vnd.oasis.opendocument.spreadsheet"
EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The time of all parts of the archive."""

MEMORY = 1 << 20
"""Bytes of a sheet of a large workbook in memory; the rows of a longer one are on the disk."""

CHARACTER = 0.2
"""Width of a character in cm."""

STANDARD = "urn:oasis:names:tc:opendocument:xmlns"
PREFIXES = {
    "office": "office", "style": "style", "text": "text", "table": "table", "meta": "meta",
    "fo": "xsl-fo-compatible", "number": "datastyle", "config": "config", "manifest": "manifest",
}  # fmt: skip
NAMESPACES = " ".join(
    [
        *(f'xmlns:{short}="{STANDARD}:{name}:1.0"' for short, name in PREFIXES.items()),
        'xmlns:xlink="http://www.w3.org/1999/xlink"',
        'xmlns:dc="http://purl.org/dc/elements/1.1/"',
    ]
)
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'

SPACES = re.compile(r"^ | $|  +|\t")
"""White space that OpenDocument collapses unless it is marked up."""

SIZES = {"section": "12pt", "title": "14pt"}
BOLD = (*SIZES, "head", "right head", "center head")
ALIGNMENTS = {"right": "end", "center": "center"}


class OpenDocumentBook(Book):
    """An OpenDocument spreadsheet; `scratch`: a folder for long sheets, else in memory."""

    def __init__(self, title: str, author: str, language: str, scratch: Path | None) -> None:
        self._title, self._author, self._language = title, author, language
        self._scratch = scratch
        self._sheets: dict[str, OpenDocumentSheet | None] = {}
        self._looks: dict[str | Look, str] = {}

    def style(self, look: str | Look) -> str:
        """Return the name of a look in the file."""
        return self._looks.setdefault(look, f"ce{len(self._looks) + 1}")

    def reserve_sheets(self, names: Iterable[str]) -> None:
        """Add empty sheets in this order, which `add_sheet` fills in any order."""
        self._sheets |= dict.fromkeys(names)

    def add_sheet(
        self, name: str, widths: Sequence[int], *, most_width: int = MOST_WIDTH, most_pages: int = 0
    ) -> OpenDocumentSheet:
        """Return a new or reserved sheet; the number of its landscape pages has no limit."""
        sheet = OpenDocumentSheet(self, name, fitted_widths(widths, most_width), self._scratch)
        self._sheets[name] = sheet
        return sheet

    def save(self, path: Path) -> None:
        """Write the file; raise OSError if it can't be written."""
        parts = {
            "content.xml": self._content(),
            "styles.xml": self._styles(),
            "settings.xml": self._settings(),
            "meta.xml": self._meta(),
        }
        with ZipFile(path, "w") as archive:
            # The standard requires this part to be the first one, and not compressed.
            _write_part(archive, "mimetype", [MIMETYPE], ZIP_STORED)
            for name, pieces in parts.items():
                _write_part(archive, name, pieces)
            _write_part(archive, "META-INF/manifest.xml", _manifest(parts))

    def close(self) -> None:
        """Close the temporary files of rows."""
        for sheet in self._existing_sheets:
            sheet.rows.close()

    @property
    def _existing_sheets(self) -> list[OpenDocumentSheet]:
        return [sheet for sheet in self._sheets.values() if sheet is not None]

    def _content(self) -> Iterator[str]:
        """Yield the sheets, after the looks of their columns and cells."""
        yield f'{HEAD}<office:document-content {NAMESPACES} office:version="1.3">'
        yield "<office:automatic-styles>"
        yield '<style:style style:name="ta" style:family="table" style:master-page-name="Default"/>'
        for width in sorted({width for sheet in self._existing_sheets for width in sheet.widths}):
            yield (
                f'<style:style style:name="co{width}" style:family="table-column">'
                "<style:table-column-properties "
                f'style:column-width="{CHARACTER * width:.1f}cm"/></style:style>'
            )
        for look, name in self._looks.items():
            yield from _cell_style(look, name)
        yield "</office:automatic-styles><office:body><office:spreadsheet>"
        for sheet in self._existing_sheets:
            yield from sheet.pieces()
        yield "<table:database-ranges>"
        for i, sheet in enumerate(self._existing_sheets, 1):
            if sheet.table is not None:
                yield (
                    f'<table:database-range table:name="Table_{i}"'
                    f" table:target-range-address={quoteattr(sheet.table)}/>"
                )
        yield "</table:database-ranges></office:spreadsheet></office:body>"
        yield "</office:document-content>\n"

    def _styles(self) -> Iterator[str]:
        """Yield the look of pages: landscape A4, with the title and the number of the page."""
        language, _, country = self._language.partition("-")
        tag = f" fo:language={quoteattr(language)} fo:country={quoteattr(country or 'none')}"
        yield f'{HEAD}<office:document-styles {NAMESPACES} office:version="1.3"><office:styles>'
        yield '<style:default-style style:family="table-cell">'
        yield f"<style:text-properties{tag}/></style:default-style></office:styles>"
        yield '<office:automatic-styles><style:page-layout style:name="pm">'
        yield '<style:page-layout-properties fo:page-width="29.7cm" fo:page-height="21cm"'
        yield ' style:print-orientation="landscape"/></style:page-layout></office:automatic-styles>'
        yield '<office:master-styles><style:master-page style:name="Default"'
        yield ' style:page-layout-name="pm"><style:footer><text:p>'
        yield f"{_marked_up(self._title)} – <text:sheet-name/>, <text:page-number/> / "
        yield "<text:page-count/></text:p></style:footer></style:master-page>"
        yield "</office:master-styles></office:document-styles>\n"

    def _settings(self) -> Iterator[str]:
        """Yield which rows and columns of each sheet stay visible while others are scrolled."""
        yield f'{HEAD}<office:document-settings {NAMESPACES} office:version="1.3"><office:settings>'
        yield '<config:config-item-set config:name="ooo:view-settings">'
        yield '<config:config-item-map-indexed config:name="Views"><config:config-item-map-entry>'
        yield '<config:config-item-map-named config:name="Tables">'
        for sheet in self._existing_sheets:
            if sheet.frozen is not None:
                columns, rows = sheet.frozen
                items = {
                    "HorizontalSplitMode": ("short", 2 if columns else 0),
                    "VerticalSplitMode": ("short", 2),
                    "HorizontalSplitPosition": ("int", columns),
                    "VerticalSplitPosition": ("int", rows),
                    "ActiveSplitRange": ("short", 2),
                    "PositionRight": ("int", columns),
                    "PositionBottom": ("int", rows),
                }
                yield f"<config:config-item-map-entry config:name={quoteattr(sheet.name)}>"
                for name, (kind, value) in items.items():
                    yield f'<config:config-item config:name="{name}" config:type="{kind}">'
                    yield f"{value}</config:config-item>"
                yield "</config:config-item-map-entry>"
        yield "</config:config-item-map-named></config:config-item-map-entry>"
        yield "</config:config-item-map-indexed></config:config-item-set></office:settings>"
        yield "</office:document-settings>\n"

    def _meta(self) -> Iterator[str]:
        """Yield the title, the author and the language."""
        facts = {"title": self._title, "creator": self._author, "language": self._language}
        yield f'{HEAD}<office:document-meta {NAMESPACES} office:version="1.3"><office:meta>'
        for name, text in facts.items():
            yield f"<dc:{name}>{escape(xml_text(text))}</dc:{name}>"
        yield "</office:meta></office:document-meta>\n"


class OpenDocumentSheet(Sheet):
    """A sheet of an OpenDocument spreadsheet.

    `rows`: its rows in XML. `table`: the address of its table with heads. `frozen`: the numbers of
    columns and rows that stay visible.
    """

    def __init__(
        self, book: OpenDocumentBook, name: str, widths: Sequence[int], scratch: Path | None
    ) -> None:
        super().__init__(widths)
        self.name, self.widths, self._book = name, widths, book
        self.rows: IO[str] = SpooledTemporaryFile(  # noqa: SIM115 (the book closes it)
            0 if scratch is None else MEMORY,  # 0: always in memory
            "w+",
            encoding="utf-8",
            newline="",
            dir=None if scratch is None else str(scratch),
        )
        self.table: str | None = None
        self.frozen: tuple[int, int] | None = None
        self._heads = (0, 0)

    def add(self, cells: Sequence[tuple[Cell, str | Look]]) -> None:
        """Write a row of cells, each with the name of its style or its look."""
        written = "".join(_cell(cell, self._book.style(look)) for cell, look in cells)
        self.rows.write(f"<table:table-row>{written}</table:table-row>\n")
        self._row += 1

    def add_heads(self, heads: Sequence[tuple[str, str]], keys: int = 0) -> None:
        """Write the heads of a table, each with its style.

        They and the first `keys` columns stay visible while others are scrolled, and the heads are
        printed on every page.
        """
        self._heads = (self._row, len(heads))
        self.rows.write("<table:table-header-rows>\n")
        self.add(heads)
        self.rows.write("</table:table-header-rows>\n")
        self.frozen = (keys, self._row)

    def end_table(self) -> None:
        """Give the table between its heads and the last row a name, unless it is empty."""
        first, columns = self._heads
        if self._row - first > 1:
            sheet = "'" + self.name.replace("'", "''") + "'"
            last = f"{column_letters(columns)}{self._row}"
            self.table = f"{sheet}.A{first + 1}:{sheet}.{last}"

    def pieces(self) -> Iterator[str]:
        """Yield the sheet in XML, in pieces."""
        yield f'<table:table table:name={quoteattr(self.name)} table:style-name="ta">\n'
        for width in self.widths:
            yield f'<table:table-column table:style-name="co{width}"/>'
        self.rows.seek(0)
        yield from self.rows
        yield "</table:table>\n"


def column_letters(number: int) -> str:
    """Return the letters of a column, from A for 1."""
    letters = ""
    while number:
        number, place = divmod(number - 1, 26)
        letters = chr(ord("A") + place) + letters
    return letters


def _write_part(
    archive: ZipFile, name: str, pieces: Iterable[str], compression: int = ZIP_DEFLATED
) -> None:
    """Write a part of the archive, without time and system."""
    info = ZipInfo(name, EARLIEST)
    # The same on all systems, so that the bytes don't depend on it.
    info.compress_type, info.create_system = compression, 0
    with archive.open(info, "w", force_zip64=compression != ZIP_STORED) as part:
        for piece in pieces:
            part.write(piece.encode())


def _manifest(parts: Iterable[str]) -> Iterator[str]:
    """Yield the list of the parts of the archive."""
    yield f'{HEAD}<manifest:manifest {NAMESPACES} manifest:version="1.3">'
    types = {"/": MIMETYPE} | dict.fromkeys(parts, "text/xml")
    for path, kind in types.items():
        version = ' manifest:version="1.3"' if path == "/" else ""
        yield f'<manifest:file-entry manifest:full-path="{path}"{version}'
        yield f' manifest:media-type="{kind}"/>'
    yield "</manifest:manifest>\n"


def _cell(cell: Cell, style: str) -> str:
    """Return a cell by the type of its value; a text never is a formula."""
    start = f'<table:table-cell table:style-name="{style}"'
    if isinstance(cell, bool):
        value = str(cell).lower()
        return f'{start} office:value-type="boolean" office:boolean-value="{value}"/>'
    if isinstance(cell, ExactNumber):
        return f'{start} office:value-type="float" office:value="{cell.text}"/>'
    if not cell:
        return f"{start}/>"
    inner = _paragraphs(fit_into_cell(cell))
    if isinstance(cell, SheetLink):
        address = quoteattr("#'" + cell.replace("'", "''") + f"'.A{cell.row}")
        inner = f'<text:p><text:a xlink:type="simple" xlink:href={address}>'
        inner += f"{_marked_up(cell)}</text:a></text:p>"
    return f'{start} office:value-type="string">{inner}</table:table-cell>'


def _paragraphs(text: str) -> str:
    """Return a text as paragraphs, one for each of its lines."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "".join(f"<text:p>{_marked_up(line)}</text:p>" for line in lines)


def _marked_up(line: str) -> str:
    """Return a line in XML, with its spaces and tabs."""
    return SPACES.sub(
        lambda found: "<text:tab/>" if found[0] == "\t" else f'<text:s text:c="{len(found[0])}"/>',
        escape(xml_text(line)),
    )


def _cell_style(look: str | Look, name: str) -> Iterator[str]:
    """Yield the style of a look, after the style of its number format."""
    named = look if isinstance(look, str) else ""
    own = look if isinstance(look, Look) else Look(wrap=look in WRAPPING, bold=look in BOLD)
    align = next(
        (end for word, end in ALIGNMENTS.items() if word in (own.align, *named.split())), ""
    )
    numbers = ""
    if own.number_format:
        yield _number_style(own.number_format, f"N{name}")
        numbers = f' style:data-style-name="N{name}"'
    yield f'<style:style style:name="{name}" style:family="table-cell"{numbers}>'
    top = ' style:vertical-align="top"' if isinstance(look, Look) or own.wrap else ""
    wrap = ' fo:wrap-option="wrap"' if own.wrap else ""
    border = ' fo:border-bottom="0.5pt solid #000000"' if "head" in named else ""
    source = ' style:text-align-source="fix"' if align else ""
    yield f"<style:table-cell-properties{top}{wrap}{border}{source}/>"
    if align:
        yield f'<style:paragraph-properties fo:text-align="{align}"/>'
    bold = ' fo:font-weight="bold"' if own.bold else ""
    weak = f' fo:font-style="italic" fo:color="{GREY}"' if own.weak else ""
    size = f' fo:font-size="{SIZES[named]}"' if named in SIZES else ""
    yield f"<style:text-properties{bold}{weak}{size}/></style:style>"


def _number_style(form: str, name: str) -> str:
    """Return the style of a number format such as `#,##0.0##" ‡"`."""
    digits, _, sign = form.partition('"')
    decimals = digits.partition(".")[2]
    sign = f"<number:text>{escape(sign.rstrip(chr(34)))}</number:text>" if sign else ""
    return (
        f'<number:number-style style:name="{name}"><number:number'
        f' number:decimal-places="{len(decimals)}"'
        f' number:min-decimal-places="{decimals.count("0")}"'
        f' number:min-integer-digits="1" number:grouping="true"/>{sign}</number:number-style>'
    )
