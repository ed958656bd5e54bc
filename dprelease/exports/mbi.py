"""Write noisy marginals with their standard deviations for private-pgm (the package `mbi`).

For each declared query whose tables are counts of rows, the export has the domain of its keys and,
per table, the noisy counts as a vector in the order of `Factor.datavector`, with the standard
deviation of their noise. Counts are written as drawn. Columns that were rounded, top-coded,
suppressed or made consistent are not measurements, and means and sums are not marginals: these
columns are listed with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from dprelease.documents.file_records import STEPS_OF_NOISE, TableRecord
from dprelease.documents.manifest import MeasurementRecord
from dprelease.documents.metadata import Role, TableMetadata
from dprelease.exports.export import Export, PublishedRelease
from dprelease.exports.names import write_json
from dprelease.numerics.lattice import Floats
from dprelease.query.aggregates.count import Count

FORMAT = "dprelease-mbi/1"


@dataclass
class _Group:
    """The measurements of one column of a declared query, and the domain of the query's keys."""

    query: str
    column: str
    values: dict[str, list[Any]] = field(default_factory=dict)
    measurements: list[dict[str, Any]] = field(default_factory=list)


class Marginals(Export):
    """The format with an index file for each query and count, and one vector for each table."""

    name = "mbi"

    def write(self, release: PublishedRelease, folder: Path) -> list[str]:
        """Write all groups and a list of the left-out columns; return the names of the files."""
        (folder / self.name).mkdir()
        groups: dict[tuple[str, str], _Group] = {}
        left_out, files = [], []
        for table in release.metadata.tables:
            for column, measurement, reason in _measured_columns(release, table):
                keys = {} if reason else _key_values(release, table)
                declared = all(key.codes is not None for key in table.keys)
                full = declared and prod(map(len, keys.values())) == _number_of_rows(release, table)
                if not reason and not full:
                    reason = "its keys are not all combinations of declared values"
                if reason or measurement is None:
                    left_out.append({"table": table.name, "column": column, "reason": reason})
                    continue
                group = groups.setdefault((table.query, column), _Group(table.query, column))
                group.values |= keys
                vector = f"{self.name}/{table.name.replace('/', '-')}-{column}.npy"
                group.measurements.append(_measurement_json(vector, list(keys), measurement))
                # Pickled arrays can run code when they are loaded.
                np.save(folder / vector, _noisy_counts(release, table, column), allow_pickle=False)
                files.append(vector)
        index = f"{self.name}/index.json"
        record = {
            "format": FORMAT,
            "groups": [_group_record(group) for group in groups.values()],
            "left_out": left_out,
        }
        write_json(folder / index, record)
        return [index, *files]


def _measured_columns(
    release: PublishedRelease, table: TableMetadata
) -> Iterator[tuple[str, MeasurementRecord | None, str]]:
    """Yield the name of each numeric column, and its measurement or the reason why it has none."""
    file = _table_record(release, table)
    measured = {m.column: m for m in release.central.measurements if m.query == file.query}
    for column in table.of_role(Role.VALUE, Role.MEASUREMENT):
        formula = file.computed.get(column.name, "")
        of_steps = formula == STEPS_OF_NOISE
        measurement = measured.get(column.name if of_steps else formula[1:-1])
        if measurement is None or not (of_steps or formula == f"[{measurement.column}]"):
            yield column.name, None, "it is no noised measurement, but computed or exact"
        elif measurement.aggregate.split(",")[0] != Count().description:
            yield column.name, None, f"it is no count of rows: {measurement.aggregate}"
        elif file.post_processing.get(column.name):
            yield column.name, None, "it was finished for readers, and its noise has another law"
        elif measurement.standard_deviation is None:
            yield column.name, None, f"{measurement.mechanism} noise has no standard deviation"
        else:
            yield column.name, measurement, ""


def _table_record(release: PublishedRelease, table: TableMetadata) -> TableRecord:
    """Return the manifest's record of a table."""
    return next(one for one in release.central.files if one.name == table.file)


def _number_of_rows(release: PublishedRelease, table: TableMetadata) -> int:
    return _table_record(release, table).rows


def _key_values(release: PublishedRelease, table: TableMetadata) -> dict[str, list[Any]]:
    """Return the values of each key in the cell order of the table."""
    keys = [key.name for key in table.keys]
    found: dict[str, dict[Any, None]] = {key: {} for key in keys}
    for batch in release.batches(table, keys) if keys else ():
        for key in keys:
            found[key].update(dict.fromkeys(batch.column(key).unique().to_pylist()))
    return {key: [_json_value(value) for value in values] for key, values in found.items()}


def _json_value(value: Any) -> str | int | bool:
    """Return a value of a key as JSON; a date becomes a text."""
    return value if isinstance(value, (str, int)) else str(value)


def _measurement_json(
    file: str, clique: list[str], measurement: MeasurementRecord
) -> dict[str, Any]:
    """Return the index entry of one vector of counts."""
    return {
        "file": file.rpartition("/")[2],
        "clique": clique,
        "stddev": measurement.standard_deviation,
        "mechanism": measurement.mechanism,
        "parameters": measurement.parameters,
    }


def _noisy_counts(release: PublishedRelease, table: TableMetadata, column: str) -> Floats:
    """Return the noisy counts of a table's cells in order."""
    parts = [batch.column(0).to_numpy() for batch in release.batches(table, [column])]
    vector: Floats = np.concatenate(parts).astype(np.float64)
    return vector


def _group_record(group: _Group) -> dict[str, Any]:
    """Return the index of a group: its domain and its measurements."""
    return {
        "query": group.query,
        "column": group.column,
        "domain": {
            "attributes": list(group.values),
            "shape": [len(values) for values in group.values.values()],
            "values": group.values,
        },
        "measurements": group.measurements,
    }


EXPORT = Marginals()
