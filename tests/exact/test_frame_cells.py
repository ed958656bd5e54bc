"""A cell of a frame affects only its own row, and never whether a run fails."""

from __future__ import annotations

import datetime
import decimal
import itertools
import traceback
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dprelease
from dprelease.accessor.row_comparison import same_cells, same_index
from dprelease.errors import DataError, DpReleaseError
from dprelease.exact.reading import frames
from dprelease.exact.reading.frames import object_columns, to_arrow
from tests.exact.build import ask, declare, exact
from tests.exact.test_value_conversion import meanings

CANARY = "SECRET-4711"
CATEGORY = {"type": "category", "values": ["a", "1", "2024-02-29"]}
READ: dict[str, dict[str, Any]] = {
    "category": CATEGORY,
    "bounded": {"type": "integer", "lower": 0, "upper": 9},
    "number": {"type": "number", "lower": 0, "upper": 9, "step": 1},
    "boolean": {"type": "boolean"},
    "date": {"type": "date"},
    "digits": {"type": "date", "format": "%Y%m%d"},
    "timestamp": {"type": "timestamp"},
}
"""Declared types that every Python object can be read as."""

LOSSES: dict[str, dict[str, Any]] = {
    "text": {"type": "text"},
    "integer": {"type": "integer"},
    "twins": {"type": "category", "values": ["1", "01"]},
    "beyond": {"type": "category", "values": ["1", "9007199254740993"]},
    "months": {"type": "date", "format": "%m.%Y"},
}
"""Those that some objects may have lost, as numbers lose zeros: all columns of objects are refused."""

COLUMNS = READ | LOSSES
GOOD: list[Any] = ["a", "1", "2024-02-29", None, "a"]


class Hostile:
    """Fails at whatever it is asked."""

    def _fail(self, *_: object) -> NoReturn:
        raise RuntimeError(CANARY)

    __eq__ = __ne__ = __lt__ = __str__ = __repr__ = __len__ = _fail  # type: ignore[assignment]
    __hash__ = __iter__ = __bool__ = __int__ = __float__ = __array__ = _fail  # type: ignore[assignment]

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        """Fail where `isinstance` asks."""
        return self._fail()


class HostileDay(datetime.date):
    def strftime(self, _format: str) -> str:  # type: ignore[override]
        return "\ud800"

    isoformat = property(lambda _: CANARY)  # type: ignore[assignment]


class HostileZone(datetime.tzinfo):
    def utcoffset(self, _: object) -> NoReturn:
        raise RuntimeError(CANARY)


class Loud(str):
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        raise UnicodeDecodeError("utf-8", CANARY.encode(), 0, 1, CANARY)


ODD: dict[str, Any] = {
    "a lone surrogate": f"{CANARY}\ud800",
    "NUL": "\0",
    "bytes": b"\xff" + CANARY.encode(),
    "bytes of a text": b"a",
    "an array of bytes": bytearray(b"a"),
    "an endless integer": 10**5000,
    "an integer": 2**64,
    "a float": 1.5,
    "truth": True,
    "a signalling NaN": decimal.Decimal("sNaN"),
    "a decimal": decimal.Decimal("1e999999"),
    "NA": pd.NA,
    "NaT": pd.NaT,
    "NaN": float("nan"),
    "a list": [CANARY, [1]],
    "an array": np.array([1, 2]),
    "a frame": pd.DataFrame({"a": [1]}),
    "hostile": Hostile(),
    "a hostile day": HostileDay(2024, 2, 29),
    "a hostile zone": datetime.datetime(2024, 2, 29, tzinfo=HostileZone()),
    "a hostile text": Loud("a"),
    "the last instant": datetime.datetime.max.replace(tzinfo=datetime.UTC),
    "the first instant": datetime.datetime.min.replace(
        tzinfo=datetime.timezone(datetime.timedelta(hours=14))
    ),
    "a day": datetime.date.max,
    "an instant of NumPy": np.datetime64(2**62, "s"),
    "a duration": np.timedelta64(1, "ns"),
    "another duration": pd.Timedelta(1),
    "a period": pd.Period("2024-02"),
    "an interval": pd.Interval(0, 1),
    "complex": 1j,
    "an identifier": uuid.UUID(int=5),
    "a void": np.void(b"a"),
}


def plain(cells: list[Any]) -> pd.Series:
    """Return a column of objects: pandas would look at them, and fail."""
    held = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells):
        held[place] = cell
    return pd.Series(held, dtype=object)


def of_categories(cells: list[Any]) -> pd.Series:
    known = list({id(cell): cell for cell in cells if cell is not None}.values())
    places = {id(cell): place for place, cell in enumerate(known)}
    codes = [places.get(id(cell), -1) for cell in cells]
    index = pd.Index._simple_new(plain(known).to_numpy(), name=None)
    kind = pd.CategoricalDtype._from_fastpath(index, ordered=False)
    return pd.Series(pd.Categorical._simple_new(np.array(codes, np.int8), kind))


def sparse(cells: list[Any]) -> pd.Series:
    held = plain(cells).to_numpy()
    places = np.array([i for i, cell in enumerate(cells) if cell is not None], np.int32)
    kind = pd.SparseDtype(object, None)
    index = pd.arrays.SparseArray([0.0] * len(cells), fill_value=1.0).sp_index
    index = type(index)(len(cells), places)
    return pd.Series(pd.arrays.SparseArray._simple_new(held[places], index, kind))


STORED: dict[str, Callable[[list[Any]], pd.Series]] = {
    "objects": plain,
    "categories": of_categories,
    "sparse": sparse,
}


def kind_of(field: pa.Field) -> str:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    return "text" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else str(kind)


def outcome(frame: object, declared: Any, rows: int) -> Any:
    """Return types, names of refused types, and the first rows; or the words of a refusal."""
    try:
        table = to_arrow(frame, declared)
    except DpReleaseError as error:
        told = "".join(traceback.format_exception(error))
        assert CANARY not in told
        assert error.__context__ is None  # noqa: PT017
        return str(error)
    kinds = [kind_of(field) for field in table.schema]
    return kinds, object_columns(table), str(table.slice(0, rows).to_pydict())  # NaN is NaN


@pytest.mark.share(0.2)
@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("odd", ODD)
def test_python_object_changes_only_its_own_row(stored: str, odd: str) -> None:
    made = [STORED[stored]([*GOOD, cell]) for cell in (None, ODD[odd])]
    for name, column in COLUMNS.items():
        for unit in ({}, {"privacy_unit": {"id": name, "max_groups": 1, "max_rows_per_group": 1}}):
            if unit and column["type"] not in ("text", "integer"):
                continue
            declared = declare({name: column}, **unit)
            found = [outcome(pd.DataFrame({name: one}), declared, len(GOOD)) for one in made]
            assert found[0] == found[1]
            assert found[0][1] == ({name: "OBJECT"} if unit or name in LOSSES else {})


@pytest.mark.parametrize("stored", STORED)
def test_engine_reads_every_python_object(stored: str) -> None:
    cells = [*GOOD, *ODD.values()]
    frame = pd.DataFrame(dict.fromkeys(READ, STORED[stored](cells)))
    found = meanings(READ, frame)
    plain_ones = meanings(READ, pd.DataFrame(dict.fromkeys(READ, plain(GOOD))))
    assert {name: values[: len(GOOD)] for name, values in found.items()} == plain_ones
    said = dict(zip(ODD, found["category"][len(GOOD) :], strict=True))
    assert said["bytes of a text"] == said["a hostile text"] == "a"
    assert [said[odd] for odd in ("bytes", "a duration", "hostile", "a lone surrogate")] == [
        None
    ] * 4


@pytest.mark.share(0.4)
@pytest.mark.parametrize("name", LOSSES)
def test_object_columns_are_refused_by_type(name: str) -> None:
    """Whatever they contain, if a query reads them, with the same message."""
    for stored, cells in itertools.product(STORED, (GOOD, [1, 1.5], [b"a"], [None], [])):
        frame = pd.DataFrame({name: STORED[stored](cells), "bounded": [1] * len(cells)})
        declared = declare({name: COLUMNS[name], "bounded": READ["bounded"]})
        with pytest.raises(DataError, match=r"stored as OBJECT.*\n.*dtype=\{'" + name) as caught:
            exact(ask(declared, {"n": {"count": name}}), frame)
        assert caught.value.code == "DP-DATA-004"
        assert exact(ask(declared, {"n": {"count": "*"}}), frame)["n"] == [len(cells)]


def test_bytes_among_objects_are_decoded() -> None:
    """As `read_sas` returns them without an encoding; invalid UTF-8 is missing."""
    columns = {"v": {"type": "category", "values": ["VT", "Zürich"]}}
    query = ask(declare(columns), {"n": {"count": "*"}}, ["v"])
    cells = plain([b"VT", "Zürich".encode(), "Zürich".encode("latin-1"), "VT"])
    assert exact(query, pd.DataFrame({"v": cells}))["n"].tolist() == [2, 1]


def columns_of_bytes(folder: Path) -> dict[str, tuple[object, str | None]]:
    """Return frames, and the path of a file, whose column `v` is one of bytes by its type."""
    cells, kinds = pa.array([b"VT", None]), [pa.large_binary(), pa.binary_view(), pa.binary(2)]
    table = pa.table({"v": cells})
    pq.write_table(table, folder / "t.parquet")
    return {
        **{str(kind): (pa.table({"v": cells.cast(kind)}), None) for kind in kinds},
        "dictionary": (pa.table({"v": cells.dictionary_encode()}), None),
        "pandas": (pd.DataFrame({"v": pd.Series(cells, dtype=pd.ArrowDtype(pa.binary()))}), None),
        "polars": (pl.DataFrame({"v": [b"VT", None]}).to_arrow(), None),
        "relation": (duckdb.sql("SELECT 'VT'::BLOB AS v"), None),
        "Parquet": (None, str(folder / "t.parquet")),
    }


@pytest.mark.parametrize("kind", ["category", "text", "integer", "date"])
def test_bytes_columns_are_refused_with_advice_to_decode(kind: str, tmp_path: Path) -> None:
    """By type, with the same message in every source; a column of texts is accepted."""
    column = {"type": kind} | ({"values": ["VT"]} if kind == "category" else {})
    for name, (frame, path) in columns_of_bytes(tmp_path).items():
        declared = declare({"v": column}, **({} if path is None else {"source": path}))
        with pytest.raises(DataError) as caught:
            exact(ask(declared, {"n": {"count": "v"}}), frame)
        assert (caught.value.code, caught.value.column) == ("DP-DATA-004", "v"), name
        assert "df['v'].str.decode" in caught.value.fix, name
    (found,) = exact(ask(declare({"v": {"type": "text"}}), {"n": {"count": "v"}}),
                     pa.table({"v": ["VT"]}))["n"]  # fmt: skip
    assert found == 1


LEAST, MOST = -(2**63), 2**63 - 1


def of_arrow(kind: pa.DataType) -> Callable[[list[Any]], pd.Series]:
    return lambda cells: pd.Series(pa.array(cells, kind), dtype=pd.ArrowDtype(kind))


def instants(cells: list[Any], unit: str, zone: str | None = None) -> pd.Series:
    held = pd.Series(np.array([LEAST if c is None else c for c in cells], f"datetime64[{unit}]"))
    return held if zone is None else held.dt.tz_localize("UTC").dt.tz_convert(zone)


TYPED: dict[str, tuple[Callable[[list[Any]], pd.Series], list[Any], list[Any]]] = {
    "str": (lambda cells: pd.Series(cells, dtype="str"), GOOD, ["\0", "x" * 10**6, ""]),
    "string[python]": (
        lambda cells: pd.Series(cells, dtype="string[python]"),
        GOOD,
        ["\0", "\ud800", Loud("a")],
    ),
    "Int64": (lambda cells: pd.Series(cells, dtype="Int64"), [1, None], [LEAST, MOST]),
    "UInt64": (lambda cells: pd.Series(cells, dtype="UInt64"), [1, None], [2**64 - 1]),
    "Float64": (
        lambda cells: pd.Series(cells, dtype="Float64"),
        [1, None],
        [np.inf, 1e308, 5e-324],
    ),
    "float16": (lambda cells: pd.Series(cells, dtype="float16"), [1, np.nan], [np.inf, 6e-8]),
    "longdouble": (lambda cells: pd.Series(cells, dtype="longdouble"), [1, np.nan], [np.inf]),
    "complex": (lambda cells: pd.Series(cells, dtype="complex128"), [1, np.nan], [np.inf, 1j]),
    "boolean": (lambda cells: pd.Series(cells, dtype="boolean"), [True, None], [False]),
    "sparse integers": (
        lambda cells: pd.Series(pd.arrays.SparseArray(cells, fill_value=0, dtype="int64")),
        [1, 0],
        [LEAST, MOST],
    ),
    "sparse truth": (
        lambda cells: pd.Series(pd.arrays.SparseArray(cells, fill_value=False)),
        [True, False],
        [True],
    ),
    **{
        f"instants {unit} {zone}": (
            lambda cells, unit=unit, zone=zone: instants(cells, unit, zone),
            [1, None],
            [LEAST + 1, MOST] if unit == "ns" else [10**15, -(10**15)],
        )
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "Europe/Berlin")
        if not (unit == "s" and zone == "Europe/Berlin")
    },
    "durations": (lambda cells: pd.Series(cells, dtype="timedelta64[ns]"), [1, pd.NaT], [MOST]),
    "periods": (
        lambda cells: pd.Series(pd.PeriodIndex(cells, freq="M")),
        ["2024-01", None],
        ["2024-02"],
    ),
    "intervals": (
        lambda cells: pd.Series(pd.arrays.IntervalArray.from_tuples(cells)),
        [(0.0, 1.0), None],
        [(0.0, np.inf)],
    ),
    "cuts": (lambda cells: pd.cut(pd.Series(cells), [0, 1, 2]), [1, 2], [np.nan, 3]),
    **{
        f"arrow {kind}": (of_arrow(kind), good, odd)
        for kind, good, odd in (
            (pa.string(), GOOD, ["\0"]),
            (pa.large_string(), GOOD, ["\0"]),
            (pa.string_view(), GOOD, ["\0", "x" * 100]),
            (pa.dictionary(pa.int8(), pa.string()), GOOD, ["\0"]),
            (pa.dictionary(pa.int8(), pa.int64()), [1, None], [MOST]),
            (pa.decimal128(38, 0), [1, None], [10**38 - 1]),
            (pa.decimal256(76, 3), [1, None], [10**72]),
            (pa.decimal128(5, -3), [1000, None], [99000000]),
            (pa.date32(), [1, None], [2**31 - 1, -(2**31)]),
            (pa.date64(), [86_400_000, None], [MOST, LEAST, 1]),
            (pa.timestamp("s", "UTC"), [1, None], [MOST, LEAST]),
            (pa.timestamp("ns"), [1, None], [MOST, LEAST]),
            (pa.time32("s"), [1, None], [2**31 - 1]),
            (pa.time64("ns"), [1, None], [MOST, -1]),
            (pa.duration("s"), [1, None], [MOST]),
            (pa.month_day_nano_interval(), [(1, 1, 1), None], [(2**31 - 1, 0, MOST)]),
            (pa.list_(pa.float64()), [[1.0], None], [[float("nan")], []]),
            (pa.struct([("a", pa.float64())]), [{"a": 1.0}, None], [{"a": float("nan")}]),
            (pa.binary(), [b"a", None], [b"\xff"]),
            (pa.null(), [None], [None]),
            (pa.uint64(), [1, None], [2**64 - 1]),
            (pa.float16(), [np.float16(1), None], [np.float16(6e-8), np.float16("nan")]),
            (pa.float64(), [1.0, None], [float("nan"), -0.0, np.inf]),
            (pa.uuid(), [b"a" * 16, None], [b"\0" * 16]),
            (pa.bool8(), [1, None], [-128]),
            (pa.json_(), ['"a"', None], ["{", "\0"]),
        )
    },
}
ALL = {"category": CATEGORY, **READ, **LOSSES}


@pytest.mark.share(0.4)
@pytest.mark.parametrize("stored", TYPED)
def test_odd_typed_value_changes_only_its_own_row(stored: str) -> None:
    """In pandas and in Arrow; equal rows stay equal, and different ones different."""
    made, good, odd = TYPED[stored]
    for name, column in ALL.items():
        declared = declare({name: column})
        first = outcome(pd.DataFrame({name: made([*good, good[0]])}), declared, len(good))
        for cell in odd:
            series = made([*good, cell])
            assert outcome(pd.DataFrame({name: series}), declared, len(good)) == first
            try:
                arrow = pa.table({name: pa.array(series)})
            except (pa.ArrowException, TypeError, ValueError):
                continue  # no user has such a table
            assert type(outcome(arrow, declared, len(good))) is type(first)
    for cell in odd:
        one, other = made([*good, cell]), made([*good, cell])
        assert same_cells(one.array, other.array)
        if stored != "float16":  # of which pandas makes no index
            assert same_index(pd.Index(one.array), pd.Index(other.array))


@pytest.mark.share(0.15)
@pytest.mark.parametrize("stored", TYPED)
def test_engine_reads_all_values_or_refuses_the_column(stored: str) -> None:
    made, good, odd = TYPED[stored]
    for name in ("category", "number", "timestamp"):
        query = ask(declare({name: COLUMNS[name]}), {"n": {"count": name}})
        words = set()
        for cells in (good, [*good, *odd]):
            try:
                exact(query, pd.DataFrame({name: made(cells)}))
            except DataError as error:
                words.add(str(error))
            else:
                words.add("")
        assert len(words) == 1


def invalid_utf8(kind: pa.DataType) -> pa.Array:
    """Return a text of invalid UTF-8, as another program may write it."""
    wide = np.int64 if pa.types.is_large_string(kind) else np.int32
    ends = pa.py_buffer(np.array([0, 1, 2], wide).tobytes())
    return pa.Array.from_buffers(kind, 2, [None, ends, pa.py_buffer(b"a\xff")])


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_texts_of_invalid_utf8_are_missing(kind: pa.DataType) -> None:
    texts = invalid_utf8(kind)
    held = {"plain": texts, "places": pa.DictionaryArray.from_arrays(pa.array([0, 1]), texts)}
    for array in held.values():
        series = pd.Series(pd.arrays.ArrowExtensionArray(array))
        for frame in (pa.table({"v": array}), pd.DataFrame({"v": series})):
            assert meanings({"v": CATEGORY}, frame)["v"] == ["a", None]


def test_polars_frames_are_read_through_arrow() -> None:
    cells = ["a", "\0", None]
    for kind in (pl.String, pl.Categorical, pl.Enum(["a", "\0"])):
        table = pl.DataFrame({"v": pl.Series(cells, dtype=kind)}).to_arrow()
        assert meanings({"v": CATEGORY}, table)["v"] == ["a", "\0", None]


def session() -> dprelease.Session:
    return dprelease.Session({"table": "t", "columns": {"v": CATEGORY}}, epsilon=100)


def error_code(frames_: Iterable[pd.DataFrame]) -> str:
    """Return the error code of a session that gets these frames, or an empty text."""
    mine = session()
    try:
        for frame in frames_:
            frame.dp.use(mine)
            frame.dp.explain("count", by="v", epsilon=1)
    except DpReleaseError as error:
        assert CANARY not in "".join(traceback.format_exception(error))  # noqa: PT017
        return error.code
    return ""


@pytest.mark.share(0.08)
@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("where", ["column", "index", "level"])
def test_identity_of_frames_does_not_depend_on_odd_cells(stored: str, odd: str, where: str) -> None:
    def frame(*cells: object) -> pd.DataFrame:
        column = STORED[stored](["a", "1", *cells])
        if where == "column":
            return pd.DataFrame({"v": column})
        texts = {"v": ["a"] * len(column)}
        if stored == "objects":  # pandas 3.0.0 compares the cells of `column.array` with themselves
            index = pd.Index(column.to_numpy(), dtype=object)
        else:
            index = pd.Index(column.array)
        if where == "level" and stored == "objects":
            codes = [list(range(len(column)))]
            index = pd.MultiIndex([index], codes, verify_integrity=False)
        return pd.DataFrame(texts, index=index)

    def again() -> Any:
        """Return the cell as another object, where that can be."""
        cell = ODD[odd]
        return decimal.Decimal("sNaN") if odd == "a signalling NaN" else cell

    for cell in (None, ODD[odd]):
        other = again() if cell is not None else None
        assert error_code([frame(cell), frame(other), frame(other).copy()]) == ""
        if where == "column":
            assert error_code([frame(cell, "a"), frame(other, "1")]) == "DP-SESSION-002"


class Own(pd.arrays.IntegerArray):
    """Converts as it likes, and fails at one of its numbers."""

    def __arrow_array__(self, type: object = None) -> Any:  # noqa: A002
        if self._data.max() > 1:
            raise ValueError(CANARY)
        return pa.array(self._data)


def test_extension_arrays_are_refused_by_type() -> None:
    for last in (1, 2):
        frame = pd.DataFrame({"v": Own(np.array([1, last]), np.array([False, False]))})
        told = outcome(frame, declare({"v": CATEGORY}), 1)
        assert "DP-DATA-004" in told
        assert "stored as Int64Dtype" in told
        assert error_code([frame, frame.copy()]) == ""


def test_categories_of_invalid_utf8_are_missing() -> None:
    """pandas fails when it builds such a categorical series, and its error quotes the code."""
    known = pd.Index(["a", "1", f"{CANARY}\ud800"], dtype=object)
    frame = pd.DataFrame({"v": pd.Categorical.from_codes([0, 2, 1, 0], known)})
    assert error_code([frame.copy(), frame.copy()]) == ""
    assert isinstance(outcome(frame, declare({"v": CATEGORY}), 4), tuple)
    mine = session()
    frame.dp.use(mine)
    assert frame.dp.count(by="v", epsilon=60)["value"].tolist() == [2, 1, 0]
    objects = pd.DataFrame({"v": pd.Series(known[[0, 2, 1, 0]], dtype=object)})
    assert meanings({"v": CATEGORY}, objects) == meanings({"v": CATEGORY}, frame)


LABELS: list[Any] = [
    "\ud800", "\0", CANARY, 1, None, float("nan"), ("v", "v"), pd.NA, b"v", Loud("w"),
]  # fmt: skip


def test_columns_with_labels_other_than_texts_are_ignored() -> None:
    labels = plain(["v", *LABELS, [1], Hostile()]).to_numpy()
    frame = pd.DataFrame({i: ["a", "1"] for i in range(len(labels))})
    frame.columns = pd.Index(labels, dtype=object)
    mine = session()
    for one in (frame, frame.copy(), pd.DataFrame({"v": ["a", "1"]})):
        one.dp.use(mine)
    assert frame.dp.count(by="v", epsilon=50)["value"].tolist() == [1, 1, 0]
    assert exact(ask(declare({"v": CATEGORY}), {"n": {"count": "v"}}), frame)["n"] == [2]
    names = pa.table([["a"]] * 3, names=["v", "\0", ""])
    assert exact(ask(declare({"v": CATEGORY}), {"n": {"count": "v"}}), names)["n"] == [1]


class Words(Exception):
    """As a library raises it, with a cell."""


@pytest.mark.parametrize("failure", [Words, UnicodeError, MemoryError, pa.ArrowInvalid, KeyError])
def test_library_errors_are_replaced_without_their_text(
    failure: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> NoReturn:
        try:
            raise failure(CANARY)
        except failure as problem:
            raise failure(f"{CANARY} again") from problem

    monkeypatch.setattr(frames, "arrow_cells", fail)
    with pytest.raises(DataError, match="DP-DATA-006") as caught:
        to_arrow(pd.DataFrame({"v": ["a"]}), declare({"v": CATEGORY}))
    assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is caught.value.__cause__ is None
