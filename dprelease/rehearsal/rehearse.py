"""The function for rehearsals from Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.documents.rehearsal_errors import ColumnErrors, Figures, errors_in
from dprelease.documents.rehearsal_manifest import TRUTH
from dprelease.errors.local_paths import check_paths
from dprelease.rehearsal.rehearsal_options import Words, requested_files, requested_rows
from dprelease.rehearsal.run import rehearse as run
from dprelease.release.api import Release, read_release
from dprelease.tables import formats

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A finished rehearsal; `folder` is its path."""

    folder: Path

    @property
    def tables(self) -> Mapping[str, pd.DataFrame]:
        """Return each published table with its true values, by name; a table is read on access."""
        return _Frames(self.folder / TRUTH)

    @property
    def errors(self) -> pd.DataFrame:
        """Return the errors of the published values.

        The frame has one row for each column of each table and each class of cells, by their true
        number of rows. Rows in which `rows` is "all" are about all cells together.
        """
        import pandas as pd

        return pd.DataFrame([row for column in errors_in(self.folder) for row in rows_of(column)])


def rows_of(column: ColumnErrors) -> Iterator[dict[str, object]]:
    """Yield the errors of one column as rows: one for each class of cells, then one for all."""
    classes: list[tuple[str, Figures]] = [(one.rows, one) for one in column.classes]
    for rows, one in (*classes, ("all", column)):
        yield {
            "table": column.table,
            "column": column.column,
            "unit": column.unit,
            "rows": rows,
            **{name: getattr(one, name) for name in Figures.model_fields},
            "confidence": column.confidence,
            "expected": column.expected,
        }


class _Frames(Mapping[str, Any]):
    """The truth tables of a folder as frames, by the name of the published table."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in set(self):
            raise KeyError(name)
        frame: pd.DataFrame = formats.PUBLISHED.read(
            self._folder / formats.file_of(name)
        ).to_pandas()
        return frame

    def __iter__(self) -> Iterator[str]:
        for path in sorted(self._folder.rglob(formats.file_of("*"))):
            name = path.relative_to(self._folder).with_suffix("").as_posix()
            if not name.startswith("people/"):
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)


def rehearse(
    release: str | Path | Release,
    *,
    rows: Words = None,
    on: Words = None,
    output: str | Path | None = None,
    overwrite: bool = False,
    variables: Mapping[str, object] | None = None,
) -> Rehearsal:
    """Run a whole release on synthetic people, and compare its values with the true values.

    No declared source is opened and nothing is charged: you see tables, errors and margins before
    any record is read. The manifest and every file are marked as a rehearsal, which no command
    accepts as a release.

    Parameters
    ----------
    release
        A release, or the file that declares it.
    rows
        The number of synthetic rows: one number, or numbers by table. By default the number in
        `rehearsal: {rows: ...}` or `size` of each table, otherwise 100,000.
    on
        A public file that replaces the only table about people, or files by table.
    output
        The folder of the rehearsal; by default the declared output with the suffix `-rehearsal`.
    overwrite
        Whether to replace an existing rehearsal; a release is never replaced.
    variables
        The values of variables in the release file, if `release` is a file.

    Raises
    ------
    DeclarationError
        DP-REHEARSE-001 to 003 for options or releases that can't be rehearsed.
    OutputError
        DP-REHEARSE-004 for a folder that holds a release; also the errors of any run.
    DpReleaseError
        The errors of `read_release` and of `Release.plan`.
    """
    check_paths(release, on, output)
    loaded = release if isinstance(release, Release) else read_release(release, variables=variables)
    declaration = loaded.declaration
    folder = run(
        declaration,
        output=None if output is None else Path(output),
        overwrite=overwrite,
        on=requested_files(declaration, on),
        rows=requested_rows(declaration, rows),
    )
    return Rehearsal(folder)
