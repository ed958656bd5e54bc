"""The function for rehearsals from Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.documents.rehearsal_errors import ColumnErrors, Figures, errors_in
from dprelease.documents.rehearsal_manifest import TRUTH
from dprelease.errors.argument_types import checked_arguments
from dprelease.errors.local_paths import check_paths
from dprelease.rehearsal.rehearsal_options import OptionValues, requested_files, requested_rows
from dprelease.rehearsal.run import rehearse as run
from dprelease.release.api import Release, read_release
from dprelease.tables import formats

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A finished rehearsal; `folder` is the path of its folder."""

    folder: Path

    @property
    def tables(self) -> Mapping[str, pd.DataFrame]:
        """Return the published tables with their true values, by the name of the table.

        Each table is read from its file when it is accessed.
        """
        return _TruthFrames(self.folder / TRUTH)

    @property
    def errors(self) -> pd.DataFrame:
        """Return the errors of the published values.

        The frame has one row for each published column and each size class. The size class of a
        cell is an interval that contains its true number of rows. In the frame's rows with the
        size class "all", the errors are those of all cells together.
        """
        import pandas as pd

        return pd.DataFrame(
            [row for column in errors_in(self.folder) for row in error_rows(column)]
        )


def error_rows(column: ColumnErrors) -> Iterator[dict[str, object]]:
    """Yield the errors of one column as rows: one for each size class, then one for all cells."""
    size_classes: list[tuple[str, Figures]] = [(one.rows, one) for one in column.classes]
    for rows, figures in (*size_classes, ("all", column)):
        yield {
            "table": column.table,
            "column": column.column,
            "unit": column.unit,
            "rows": rows,
            **{name: getattr(figures, name) for name in Figures.model_fields},
            "confidence": column.confidence,
            "expected": column.expected,
        }


class _TruthFrames(Mapping[str, Any]):
    """The truth tables in a folder as pandas frames, by the name of the published table."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in set(self):
            raise KeyError(name)
        frame: pd.DataFrame = formats.PUBLISHED_FORMAT.read(
            self._folder / formats.table_file_name(name)
        ).to_pandas()
        return frame

    def __iter__(self) -> Iterator[str]:
        for path in sorted(self._folder.rglob(formats.table_file_name("*"))):
            name = path.relative_to(self._folder).with_suffix("").as_posix()
            if not name.startswith("people/"):
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)


@checked_arguments
def rehearse(
    release: str | Path | Release,
    *,
    rows: OptionValues = None,
    on: OptionValues = None,
    output: str | Path | None = None,
    overwrite: bool = False,
    variables: Mapping[str, object] | None = None,
) -> Rehearsal:
    """Run a whole release on synthetic people, and compare the published with the true values.

    A rehearsal opens no declared source and charges no ledger: you see tables, errors and margins
    before any real record is read. The manifest and every file are marked as a rehearsal, and no
    command accepts a rehearsal as a release.

    Parameters
    ----------
    release
        A release, or the file that declares it.
    rows
        The number of synthetic rows: one number for all tables about people, or a number for each
        table. By default, a table has the number of rows in its `rehearsal: {rows: ...}`, or the
        number of privacy units in its `size`; otherwise it has 100,000 rows.
    on
        A public file that replaces the only table about people, or a file for each table.
    output
        The folder of the rehearsal. The default is the declared folder of the release with the
        suffix `-rehearsal`.
    overwrite
        Whether to replace an existing rehearsal; a release is never replaced.
    variables
        The values of the variables in the release file, if `release` is a file.

    Raises
    ------
    DeclarationError
        DP-REHEARSE-001 to 003 for a release that can't be rehearsed, or for invalid options.
    OutputError
        DP-REHEARSE-004 for a folder that contains a release; also the output errors of a run.
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
