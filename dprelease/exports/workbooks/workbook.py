"""Write the workbooks of a release in any file format of spreadsheets.

Each language has a workbook with the official figures. If the release has real-valued estimates of
consistent tables, another workbook has these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path

from dprelease.documents.metadata import Metadata
from dprelease.exports.export import Export, Problem, PublishedRelease
from dprelease.exports.names import create_parent_folder
from dprelease.exports.workbooks.book import Book
from dprelease.exports.workbooks.sheet_tables import SheetTable, sheet_tables, without_unset_flags
from dprelease.exports.workbooks.words import WorkbookWords, release_words
from dprelease.postprocess.consistent.outputs import ESTIMATES

RELEASE = "release"
"""First part of the name of a workbook; with several languages, `_` and the language follow."""

MOST_ROWS_ABOVE = 1 << 10
"""Room on a sheet for rows of text above and below its table."""

MOST_ROWS, MOST_COLUMNS = 1_048_576 - MOST_ROWS_ABOVE, 16_384
"""Maximum rows and columns of a table on a sheet, in Excel and in LibreOffice."""

IN_MEMORY = 1 << 17
"""Maximum number of cells of a workbook whose rows are in memory, which takes some 100 MB."""


class Workbooks(Export, ABC):
    """A format with workbooks: a cover, contents, notes, a sheet for each query, an annex.

    `ending`: the ending of the names of files.
    """

    ending: str

    @abstractmethod
    def new_book(self, title: str, author: str, language: str, scratch: Path | None) -> Book:
        """Return an empty workbook; `scratch`: a folder for the rows of a large workbook."""

    def problems(self, metadata: Metadata) -> Iterator[Problem]:
        """Yield the tables that may not fit on a sheet, or a problem if no table is readable."""
        tables = sheet_tables(metadata, estimates=False)
        if not tables:
            yield Problem("no table has readable values")
        for table in [*tables, *sheet_tables(metadata, estimates=True)]:
            name, rows = table.main.name, table.most_rows
            if rows is None:
                yield Problem("its number of rows is only known after the run", name)
            elif rows > MOST_ROWS:
                yield Problem(
                    f"it has {rows:,} rows, but a sheet can have only {MOST_ROWS:,}", name
                )
            if table.column_count > MOST_COLUMNS:
                found = f"{table.column_count:,}"
                yield Problem(
                    f"it has {found} columns, but a sheet can have only {MOST_COLUMNS:,}", name
                )

    def write(self, release: PublishedRelease, folder: Path) -> list[str]:
        """Write the workbooks of each language; return the names of their files."""
        metadata = release.metadata
        official = [
            without_unset_flags(one, release) for one in sheet_tables(metadata, estimates=False)
        ]
        estimates = sheet_tables(metadata, estimates=True)
        files, name = [], f"{self.name}/{{}}.{self.ending}"
        for language in metadata.languages:
            tag = f"_{language}" if len(metadata.languages) > 1 else ""
            words = release_words(release, language)
            file, other = name.format(RELEASE + tag), name.format(ESTIMATES + tag)
            text = words.say("official_meaning", file=Path(other).name) if estimates else ""
            path = create_parent_folder(folder / file)
            self._write_workbook(release, official, words, text, path)
            files.append(file)
            if estimates:
                text = words.say("estimates_meaning", file=Path(file).name)
                self._write_workbook(release, estimates, words, text, folder / other)
                files.append(other)
        return files

    def _write_workbook(
        self,
        release: PublishedRelease,
        tables: Sequence[SheetTable],
        words: WorkbookWords,
        introduction: str,
        path: Path,
    ) -> None:
        """Write one workbook in one language; `introduction`: the first text of its cover."""
        from dprelease.exports.workbooks.sheets import write_sheets

        about = release.metadata.about
        cells = sum((table.most_rows or 0) * table.column_count for table in tables)
        scratch = path.parent if cells > IN_MEMORY else None
        title, author = about.heading(words.language), about.publisher or "dprelease"
        book = self.new_book(title, author, words.language, scratch)
        try:
            write_sheets(book, tables, release, words, introduction)
            book.save(path)
        finally:
            book.close()
