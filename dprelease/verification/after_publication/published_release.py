"""Read a published release in Python: tables as frames, manifest, budget and labels."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.documents.encoding import sha256_if_readable
from dprelease.documents.file_records import ColumnRecord, FileRecord
from dprelease.documents.manifest import CentralManifest
from dprelease.documents.release_manifest import ReleaseManifest
from dprelease.errors import (
    OutputError,
    Place,
    State,
    VerificationError,
)
from dprelease.errors.argument_types import checked_methods
from dprelease.errors.local_paths import check_paths
from dprelease.errors.suggestions import nearest
from dprelease.release.run_result import PrivacySpent
from dprelease.system.summaries import Summarized, Summary
from dprelease.tables import formats
from dprelease.verification.after_publication.comparable_release import ComparableRelease
from dprelease.verification.manifest_comparison import Rehearsal, read_any_manifest
from dprelease.verification.report import Report
from dprelease.verification.verify import verify

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


@checked_methods
class PublishedRelease(ComparableRelease, Summarized):
    """A published release, read from its folder.

    The name of a table is that of its file without the extension, such as `estimates/by_sex`. The
    folder can be left out if only one folder has such a table.

    The manifest must have its own digest, and a table is read only if its bytes have the digest in
    the manifest. `verify` checks everything else.

    Parameters
    ----------
    path
        The folder of a release, or of a rehearsal.

    Raises
    ------
    VerificationError
        DP-VERIFY-001 if there is no manifest, 002 or 003 for one that the tool would not write.
    """

    def __init__(self, path: str | Path) -> None:
        check_paths(path)
        self.path = Path(path)
        self.manifest: ReleaseManifest = read_any_manifest(self.path)

    def _summary(self) -> Summary:
        """Return the name, the number of rows and the columns of each table."""
        what = "rehearsal" if self.is_rehearsal else "release"
        rows = [
            (name, f"{file.rows:,}", ", ".join(column.name for column in file.columns))
            for name, file in ((name, self._file(name)) for name in self.tables)
        ]
        return f"PublishedRelease: {what} '{self.title}'", ("table", "rows", "columns"), rows

    @property
    def title(self) -> str:
        """Return the title of the release."""
        return self.manifest.title

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the manifest."""
        return self.manifest.digest

    @property
    def is_rehearsal(self) -> bool:
        """Return whether the folder is a rehearsal, whose tables are about synthetic people."""
        return isinstance(self.manifest, Rehearsal)

    @property
    def spent(self) -> PrivacySpent | None:
        """Return the guarantee of the release; None for a party's messages, which have several."""
        return PrivacySpent.of(self.manifest)

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """Return the names of the tables for readers, in the order of the manifest."""
        measured: set[str] = set()
        if isinstance(self.manifest, CentralManifest):
            measured = {name for family in self.manifest.families for name in family.measurements}
        files = (file for file in self.manifest.files if file.name not in measured)
        return tuple(_table_name(file) for file in files)

    @property
    def labels(self) -> dict[str, dict[str, dict[str, str]]]:
        """Return the labels of columns, by table, by column and by language."""
        return {
            name: {column.name: dict(column.label) for column in self._file(name).columns}
            for name in self.tables
        }

    def columns(self, table: str | None = None) -> tuple[ColumnRecord, ...]:
        """Return name, type, role, unit and texts of the columns of a table.

        `table`: its name, which may be left out if there is only one table.
        """
        return tuple(self._file(table).columns)

    def quality(self, table: str | None = None) -> pd.DataFrame:
        """Return the margin of error, the expected error and the mechanism of each measurement.

        One row for each noisy measurement of the table, in the unit of `error_unit`. Consistent
        tables are computed from all measurements of their family; their own standard errors are
        columns of the tables. For records of a family, the result has all its measurements.
        `table`: the name of a table; by default all tables.
        """
        import pandas as pd

        numbers = ["margin_95", "standard_deviation"]
        known = ["query", "column", "mechanism", "error_unit", *numbers]
        records = [one.to_json() for one in self.manifest.measurements]
        queries = {record["query"] for record in records}
        if table is not None:
            file = self._file(table)
            name = _table_name(file).rpartition("/")[2]
            queries &= {name} if name in queries else self._queries_of_family(file.query)
        rows = [
            {name: record.get(name) for name in known}
            for record in records
            if record["query"] in queries
        ]
        return pd.DataFrame(rows, columns=known).astype(dict.fromkeys(numbers, "float64"))

    def _queries_of_family(self, query: str) -> set[str]:
        """Return the names of all tables that a query declares, in measurements."""
        families = self.manifest.families if isinstance(self.manifest, CentralManifest) else []
        tables = {name for one in families if one.name == query for name in one.tables}
        return tables | {query}

    def to_arrow(self, table: str | None = None) -> pa.Table:
        """Return a table as Arrow, with the notes on its columns as metadata of fields.

        `table`: its name, which may be left out if there is only one table.

        Raises
        ------
        OutputError
            DP-OUTPUT-020 if there is no such table, or several and no name.
        VerificationError
            DP-VERIFY-004 if a file of the table has other bytes than the manifest says.
        """
        file = self._file(table)
        for name, digest in file.digests.items():
            if sha256_if_readable(self.path / name) != digest:
                raise VerificationError(
                    "DP-VERIFY-004", place=Place(name), state=State.RELEASED, name=name
                )
        return formats.PUBLISHED_FORMAT.read(self.path / file.name)

    def to_pandas(self, table: str | None = None) -> pd.DataFrame:
        """Return a table as a pandas frame; arguments and errors as in `to_arrow`."""
        frame: pd.DataFrame = self.to_arrow(table).to_pandas()
        return frame

    def to_polars(self, table: str | None = None) -> pl.DataFrame:
        """Return a table as a polars frame; arguments and errors as in `to_arrow`.

        Raises
        ------
        OutputError
            DP-OUTPUT-021 if polars is not installed.
        """
        try:
            import polars as pl
        except ModuleNotFoundError:
            raise OutputError("DP-OUTPUT-021", package="polars") from None
        return pl.DataFrame(self.to_arrow(table))

    def verify(
        self,
        *,
        ledger: str | Path | None = None,
        signers: str | Path | None = None,
        certify: bool = False,
    ) -> Report:
        """Return the report of `dprelease.verify` on the folder; arguments as there."""
        check_paths(ledger, signers)
        return verify(
            self.path,
            ledger=ledger,
            signers=signers,
            rehearsal=self.is_rehearsal,
            certify=certify,
        )

    def _file(self, table: str | None) -> FileRecord:
        """Return the record of a table, or of the only table."""
        by_name = {_table_name(file): file for file in self.manifest.files}
        if table is None and len(self.tables) == 1:
            return by_name[self.tables[0]]
        if table is not None and table in by_name:
            return by_name[table]
        short = [name for name in self.tables if name.rpartition("/")[2] == table]
        if len(short) == 1:
            return by_name[short[0]]
        found = "no table is named" if table is None else f"there is no table '{table}'"
        close = "" if table is None or short else nearest(table, self.tables)
        close = f", but {' and '.join(short)}" if short else close
        known: Any = ", ".join(self.tables)
        raise OutputError("DP-OUTPUT-020", found=f"{found}{close}", known=known)


def _table_name(file: FileRecord) -> str:
    """Return the name of a table: that of its file without the extension."""
    return file.name.removesuffix(f".{formats.PUBLISHED_FORMAT.extension}")
