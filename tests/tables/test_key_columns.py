"""Keys of consecutive cells: as texts, and as codes that make the same files."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.query.grouping.group_keys import Key, KeySpace
from dprelease.tables.field_notes import with_field_notes
from dprelease.tables.formats import Parquet
from dprelease.tables.key_columns import PublicKeys, _repeating_offsets, _value_offsets

KEYS = {
    "text": Key("t", "text", ("b", "a", "é", "")),
    "one": Key("o", "text", ("only",)),
    "flag": Key("f", "boolean", (False, True)),
    "number": Key("n", "integer", range(-2, 3)),
    "day": Key("d", "date", (date(2020, 1, 1), date(2020, 1, 2), date(2020, 1, 3))),
    "many": Key("m", "text", tuple(f"v{i}" for i in range(300))),
}


def space(names: list[str]) -> KeySpace:
    return KeySpace(tuple(KEYS[name] for name in names))


@given(
    st.lists(st.sampled_from(list(KEYS)), unique=True, max_size=4).map(space),
    st.integers(0, 2000),
    st.integers(0, 2000),
)
def test_all_methods_give_the_same_keys(keys: KeySpace, first: int, length: int) -> None:
    first = min(first, keys.size)
    last = min(first + length, keys.size)
    made = PublicKeys(keys)
    wanted = made.at(np.arange(first, last))
    assert all(array.equals(wanted[name]) for name, array in made.of(first, last).items())
    for name, array in made.dictionary_columns(first, last).items():
        plain = array.cast(pa.string()) if pa.types.is_dictionary(array.type) else array
        assert plain.equals(wanted[name])


@pytest.mark.parametrize("notes", [{}, {"role": "key", "label": "x"}])
@pytest.mark.parametrize("cuts", [[0, 7200], [0, 1, 601, 3000, 7200], [0, 5000, 5001, 7200]])
def test_dictionary_codes_give_the_same_file(
    cuts: list[int], notes: dict[str, str], tmp_path: Path
) -> None:
    """To the byte, wherever batches begin."""
    made = PublicKeys(space(["text", "many", "flag", "day"]))
    found = []
    for name in ("of", "dictionary_columns"):
        path = tmp_path / name
        parts = [getattr(made, name)(a, b) for a, b in zip(cuts, cuts[1:], strict=False)]
        tables = [
            with_field_notes(
                pa.Table.from_arrays(list(p.values()), names=list(p)), dict.fromkeys(p, notes)
            )
            for p in parts
        ]
        with Parquet().writer(path, tables[0].schema) as writer:
            for table in tables:
                writer.write(table)
        found.append(path.read_bytes())
        assert pq.read_schema(path).field("m").type == pa.string()
    assert pq.read_table(tmp_path / "of").equals(pq.read_table(tmp_path / "dictionary_columns"))
    assert found[0] == found[1]


@given(
    stride=st.integers(1, 50),
    size=st.integers(1, 40),
    first=st.integers(0, 10_000),
    cells=st.integers(1, 9_000),
)
def test_repeated_codes_equal_computed_ones(stride: int, size: int, first: int, cells: int) -> None:
    """Wherever a range begins and ends, and however often the values are gone through."""
    last = first + cells
    counted = [cell // stride - first // stride for cell in range(first, last)]
    assert _value_offsets(first, last, stride).tolist() == counted
    copied = _repeating_offsets(first, last, stride, size)
    assert copied.tolist() == [place % size for place in counted]
    assert copied.dtype == np.int32
