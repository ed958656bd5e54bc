"""Joins against plain Python, and neighbours against the claimed sensitivities (V26, V29, V64)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.errors import DataError, DpReleaseError, State
from dprelease.exact import input_checks
from dprelease.exact.bounding import bounding_in_memory as bounding
from dprelease.exact.duckdb import Engine
from dprelease.privacy.unit import Neighbours
from dprelease.query.resolve import Query
from dprelease.schema.load import Declared
from dprelease.statements import layers
from tests.covering import examples, thinned
from tests.exact.build import ask, declare, exact
from tests.exact.reference import left_join, reference, unit_join
from tests.exact.test_reference import breaches, claims

Row = dict[str, Any]
TRIPS: dict[str, Any] = {
    "id": {"type": "integer"},
    "start": {"type": "integer"},
    "code": {"type": "text"},
    "n": {"type": "integer", "lower": -2, "upper": 5},
}
TRIP_TYPES = pa.schema(
    [("id", pa.int64()), ("start", pa.int64()), ("code", pa.string()), ("n", pa.int64())]
)
STATIONS: dict[str, Any] = {
    "station": {"type": "integer"},
    "code": {"type": "text"},
    "region": {"type": "category", "values": ["north", "south"], "fill": "south"},
    "height": {"type": "number", "lower": 0, "upper": 10, "step": "0.5"},
    "double": {"expression": "height * 2", "type": "number", "lower": 0, "upper": 20, "step": 1},
    "level": {"cut": "height", "edges": [0, 5, 11], "fill": "0-4"},
}
STATION_TYPES = pa.schema(
    [
        ("station", pa.int32()),
        ("code", pa.string()),
        ("region", pa.string()),
        ("height", pa.float64()),
    ]
)
IDS = st.sampled_from([None, 1, 1, 2, 3])
TRIP = st.fixed_dictionaries(
    {
        "id": IDS,
        "start": st.sampled_from([None, 1, 2, 3, 4, 2**53, 2**53 + 1]),
        "code": st.sampled_from([None, "a", "A", "b", "1"]),
        "n": st.sampled_from([None, -7, 0, 3, 99]),
    }
)
STATION = st.fixed_dictionaries(
    {
        "station": st.sampled_from([None, 1, 2, 3, 5]),
        "code": st.sampled_from([None, "a", "A", "b", "1"]),
        "region": st.sampled_from(["north", "south", "zz", None]),
        "height": st.sampled_from([None, float("nan"), -1.0, 4.75, 7.0, 1e300]),
    }
)
TRIPS_ROWS = st.lists(TRIP, max_size=10)


def unique(rows: list[Row], *names: str) -> list[Row]:
    """Return the rows without later ones of a key that was there before."""
    seen: set[Any] = set()
    found = []
    for row in rows:
        key = tuple(row[name] for name in names)
        if None in key or key not in seen:
            found.append(row)
            seen.add(key)
    return found


JOINS: dict[str, dict[str, Any]] = {
    "by number": {"station": "start"},
    "by text": {"code": "code"},
    "by both": {"station": "start", "code": "code"},
}
ONE = {"id": "id", "max_groups": 1, "max_rows_per_group": 1}
UNMATCHED = st.sampled_from(["keep", "drop"])
UNITS = [{}, {"id": "id", "max_groups": 2, "max_rows_per_group": 2}]


PUBLIC = {"table": "stations", "public": "true"}


def public_table(**more: Any) -> Declared:
    """Return the declared stations; without their code, which the trips have as well."""
    columns = {name: column for name, column in STATIONS.items() if name != "code"}
    return declare(columns, **PUBLIC, **more)


def public_query(
    unit: Row,
    how: str,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    unmatched: str = "keep",
    **more: Any,
) -> Query:
    """Return a query of trips by what the public table says of their start."""
    on = {left: right for right, left in JOINS[how].items()}
    measurements = {
        "rows": {"count": "*"},
        "n": {"sum": "n"},
        "h": {"sum": "height"},
        "d": {"sum": "double"},
    }
    return ask(
        declare(TRIPS, **({"privacy_unit": unit} if unit else {})),
        measurements,
        ["region", "level"],
        neighbours=neighbours,
        other=public_table() if how == "by number" else declare(STATIONS, **PUBLIC),
        join={"table": "stations", "on": on, "unmatched": unmatched},
        **more,
    )


def trips(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=TRIP_TYPES)


def stations(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=STATION_TYPES)


def with_double(row: Row) -> Row:
    height = row["height"]
    return {**row, "double": None if height is None else height * 2}


@pytest.mark.share(0.4)
@pytest.mark.parametrize(("unit", "how"), thinned(UNITS, list(JOINS), together=1), ids=str)
@examples(6, in_audits=150)
@given(rows=TRIPS_ROWS, public=st.lists(STATION, max_size=6), unmatched=UNMATCHED)
def test_public_joins_equal_the_reference(
    unit: Row, how: str, rows: list[Row], public: list[Row], unmatched: str
) -> None:
    query = public_query(unit, how, unmatched=unmatched)
    public = unique(public, *JOINS[how])
    found = exact(query, trips(rows), stations(public))
    joined = left_join(query, rows, [with_double(row) for row in public])
    for name, vector in reference(query, joined).items():
        assert found[name].tolist() == vector, name


def units_of(unit: Row, rows: list[Row]) -> list[list[Row]]:
    """Return what is left of the rows when each unit is taken out in turn."""
    if not unit:
        return [rows[:i] + rows[i + 1 :] for i in range(len(rows))]
    people = sorted({row["id"] for row in rows} - {None})
    return [[row for row in rows if row["id"] != person] for person in people]


@pytest.mark.share(0.25, by="neighbours")
@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("unit", UNITS, ids=str)
@examples(4)
@given(
    rows=TRIPS_ROWS,
    public=st.lists(STATION, max_size=6),
    others=st.lists(TRIP, min_size=1, max_size=3),
    unmatched=UNMATCHED,
)
def test_public_joins_keep_the_claimed_sensitivity(
    unit: Row,
    neighbours: Neighbours,
    rows: list[Row],
    public: list[Row],
    others: list[Row],
    unmatched: str,
) -> None:
    query = public_query(unit, "by number", neighbours, unmatched)
    new = [] if neighbours is Neighbours.ADD_REMOVE else (others if unit else others[:1])
    right = stations(unique(public, "station"))
    whole = exact(query, trips(rows), right)
    for rest in units_of(unit, rows):
        table = trips(rest + [{**row, "id": 99} for row in new])
        assert not breaches(query, whole, exact(query, table, right), claims(query))


DUPLICATES = [
    {"station": 1, "code": code, "region": "north", "height": 3.0} for code in ("a", "A", None)
]
TRIP_ROW = {"id": 1, "start": 1, "code": "a", "n": 5}


def test_duplicate_public_keys_are_refused_before_a_row_is_read() -> None:
    """Six stations that stand twice made 28,000 trips more out of 326,339 (V26)."""
    query = public_query({}, "by number")
    opened = Engine.open(
        query.declared, trips([TRIP_ROW]), query.join.declared, stations(DUPLICATES)
    )  # type: ignore[union-attr]
    with opened as engine, pytest.raises(DataError, match="DP-DATA-012") as caught:
        engine.compile(query)
    assert caught.value.state is State.NOTHING
    assert "station" in str(caught.value)


def without_key_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch off the check of a public table's keys, but not the statement's own caution."""
    monkeypatch.setattr(input_checks, "refuse_duplicate_keys", lambda *_: None)


def test_rows_count_once_even_without_the_key_check(monkeypatch: pytest.MonkeyPatch) -> None:
    without_key_check(monkeypatch)
    query = public_query({}, "by number")
    found = exact(query, trips([TRIP_ROW]), stations(DUPLICATES))
    assert found["rows"].sum() == 1
    assert found["h"].sum() == 0


def test_neighbour_check_finds_duplicated_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows in a plain LEFT JOIN move a count by three: the check above can fail."""
    without_key_check(monkeypatch)
    careful = layers.joined_rows_sql
    monkeypatch.setattr(
        layers, "joined_rows_sql", lambda *given: careful(*given).partition(" QUALIFY")[0]
    )
    query = public_query({}, "by number")
    one, other = (exact(query, trips(rows), stations(DUPLICATES)) for rows in ([TRIP_ROW], []))
    assert breaches(query, one, other, claims(query))


def test_integer_join_keys_are_compared_as_integers() -> None:
    """2^53 and 2^53 + 1 are one float, but two stations."""
    query = ask(
        declare(TRIPS),
        {"h": {"sum": "height"}},
        other=public_table(),
        join={"table": "stations", "on": {"start": "station"}},
    )
    rows = [{**TRIP_ROW, "start": 2**53 + i} for i in (0, 1, 1)]
    for kind in ("BIGINT", "VARCHAR", "UBIGINT"):
        with duckdb.connect() as link:
            right = link.sql(
                f"SELECT CAST(x AS {kind}) AS station, 'a' AS code, 'north' AS region, y AS height "
                "FROM (VALUES (9007199254740992, 1.0::DOUBLE), (9007199254740993, 3)) g(x, y)"
            ).to_arrow_table()
        assert exact(query, trips(rows), right)["h"].tolist() == [14]


@pytest.mark.share(0.4)
@pytest.mark.parametrize(
    ("column", "cells", "matched"),
    [
        ({"type": "category", "values": ["x", "01"]}, [3, 1], 1),
        ({"type": "integer", "lower": 0, "upper": 100}, [2**53 + 1, 2**53, 1], 1),
        ({"type": "integer", "lower": 0, "upper": 100}, [2**53 - 1, 300, 1], 3),
    ],
    ids=["undeclared codes", "beyond floats", "out of bounds"],
)
def test_stored_type_of_join_keys_changes_no_match(
    column: dict[str, Any], cells: list[int], matched: int
) -> None:
    """A missing key turns all into floats, a letter into texts."""
    kind = "text" if column["type"] == "category" else "integer"
    there = [str(cell) for cell in cells] + ["03", "01", "3.0"] if kind == "text" else cells
    right = declare(
        {"key": {"type": kind}, "n": {"type": "integer", "lower": 0, "upper": 1}},
        table="codes",
        public=True,
    )
    query = ask(
        declare({"k": column}),
        {"n": {"sum": "n"}},
        other=right,
        join={"table": "codes", "on": {"k": "key"}},
    )
    codes = pa.table({"key": list(dict.fromkeys(there)), "n": [1] * len(set(there))})
    frame = pd.DataFrame({"k": cells})
    for twin in (frame, frame.astype("float64"), frame.astype("str"), "0" + frame.astype("str")):
        assert exact(query, twin, codes)["n"].tolist() == [matched]


def test_joined_columns_in_conditions_and_expressions() -> None:
    derive = {
        "climb": {"expression": "height * n", "type": "number", "lower": 0, "upper": 50, "step": 1},
        "steep": {"expression": "climb > 10 AND level = '5-10'", "type": "boolean"},
        "name": {"expression": "lower(code)", "type": "text"},
    }
    query = ask(
        declare(TRIPS),
        {"climb": {"sum": "climb"}, "rows": {"count": "*"}},
        ["steep"],
        where="region = 'north' OR name = 'x'",
        other=public_table(),
        join={"table": "stations", "on": {"start": "station"}},
        derive=derive,
    )
    public = [
        {"station": 1, "region": "north", "height": 7.0},
        {"station": 2, "region": "south", "height": 7.0},
    ]
    rows = [TRIP_ROW, {**TRIP_ROW, "start": 2}, {**TRIP_ROW, "start": 2, "code": "X"}]
    found = exact(query, trips(rows), pa.Table.from_pylist(public))
    assert found["rows"].tolist() == [0, 2]
    assert found["climb"].tolist() == [0, 70]


PEOPLE: dict[str, Any] = {
    "id": {"type": "integer"},
    "sex": {"type": "category", "values": ["F", "M"], "fill": "M"},
    "rate": {"type": "integer", "lower": 0, "upper": 3},
}
VISITS: dict[str, Any] = {
    "id": {"type": "integer"},
    "ward": {"type": "category", "values": ["a", "b", "c"], "others": "c"},
    "days": {"type": "integer", "lower": -1, "upper": 4},
}
PERSON = st.fixed_dictionaries(
    {
        "id": IDS,
        "sex": st.sampled_from(["F", "M", "x", None]),
        "rate": st.sampled_from([None, 0, 2, 9]),
    }
)
VISIT = st.fixed_dictionaries(
    {
        "id": IDS,
        "ward": st.sampled_from(["a", "b", "c", "d", None]),
        "days": st.sampled_from([None, -9, 1, 3, 8]),
    }
)
BOUNDS = [
    {"max_groups": 1, "max_rows_per_group": 1},
    {"max_groups": 2, "max_rows_per_group": 3},
    {"max_groups": 9, "max_rows_per_group": 2},
    {"max_groups": 9, "max_rows_per_group": 2, "max_rows": 5},
]


def private_query(
    bounds: Row, by: list[str], neighbours: Neighbours = Neighbours.ADD_REMOVE, **join: Any
) -> Query:
    """Return a query of people beside their visits."""
    cost = {"expression": "rate * days", "type": "integer", "lower": -3, "upper": 12, "fill": 1}
    return ask(
        declare(PEOPLE, privacy_unit={**ONE, **bounds}),
        {
            "rows": {"count": "*"},
            "rate": {"sum": "rate"},
            "days": {"sum": "days"},
            "cost": {"sum": "cost"},
            "people": {"count_distinct": "id"},
            "wards": {"count_distinct": "ward"},
        },
        by,
        neighbours=neighbours,
        other=declare(VISITS, table="visits", privacy_unit=ONE),
        join={"table": "visits", "on_unit": "true", **join},
        derive={"cost": cost},
    )


def tables(people: list[Row], visits: list[Row]) -> tuple[pa.Table, pa.Table]:
    first = pa.schema([("id", pa.int64()), ("sex", pa.string()), ("rate", pa.int32())])
    second = pa.schema([("id", pa.int32()), ("ward", pa.string()), ("days", pa.int64())])
    return pa.Table.from_pylist(people, schema=first), pa.Table.from_pylist(visits, schema=second)


def with_cost(row: Row) -> Row:
    rate, days = row["rate"], row["days"]
    return {**row, "cost": None if None in (rate, days) else float(rate * days)}


@pytest.mark.share(0.4)
@pytest.mark.parametrize(
    ("bounds", "by"), thinned(BOUNDS, [["sex", "ward"], []], together=1), ids=str
)
@examples(6, in_audits=150)
@given(people=st.lists(PERSON, max_size=8), visits=st.lists(VISIT, max_size=8))
def test_joins_of_one_person_equal_the_reference(
    bounds: Row, by: list[str], people: list[Row], visits: list[Row]
) -> None:
    query = private_query(bounds, by)
    found = exact(query, *tables(people, visits))
    joined = [with_cost(row) for row in unit_join(query, people, visits)]
    for name, vector in reference(query, joined).items():
        assert found[name].tolist() == vector, name


@pytest.mark.share(0.15, by="neighbours")
@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@examples(4)
@given(
    people=st.lists(PERSON, max_size=8),
    visits=st.lists(VISIT, max_size=8),
    new=st.tuples(
        st.lists(PERSON, min_size=1, max_size=3), st.lists(VISIT, min_size=1, max_size=3)
    ),
)
def test_joins_by_id_keep_the_claimed_sensitivity(
    bounds: Row,
    neighbours: Neighbours,
    people: list[Row],
    visits: list[Row],
    new: tuple[list[Row], list[Row]],
) -> None:
    """A person is removed from both tables at once (V29)."""
    query = private_query(bounds, ["sex", "ward"], neighbours)
    whole = exact(query, *tables(people, visits))
    for person in sorted({row["id"] for row in people + visits} - {None}):
        rest = [[row for row in rows if row["id"] != person] for rows in (people, visits)]
        if neighbours is Neighbours.REPLACE:
            rest = [
                rows + [{**row, "id": 99} for row in more]
                for rows, more in zip(rest, new, strict=True)
            ]
        assert not breaches(query, whole, exact(query, *tables(*rest)), claims(query))


HEAVY = (
    [{"id": 1, "sex": "F", "rate": 3}] * 4,
    [{"id": 1, "ward": ward, "days": 4} for ward in "abc"] * 4,
)


def test_contribution_limits_hold_for_joined_rows() -> None:
    """Four rows joined with twelve give 48; two groups of three rows count."""
    query = private_query(BOUNDS[1], ["sex", "ward"])
    found = exact(query, *tables(*HEAVY))
    assert sorted(found["rows"].tolist(), reverse=True)[:3] == [3, 3, 0]
    own = private_query(BOUNDS[0], ["sex", "ward"], max_groups=3, max_rows_per_group=2)
    assert (own.unit.max_groups, own.unit.max_rows_per_group) == (3, 2)
    assert exact(own, *tables(*HEAVY))["rows"].sum() == 6


def test_neighbour_check_finds_unbounded_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without bounding after the join, one person moves more than is claimed."""
    query = private_query(BOUNDS[1], ["sex", "ward"])
    bounded = bounding.limit_contributions
    monkeypatch.setattr(
        bounding,
        "limit_contributions",
        lambda link, sql, unit, cells: bounded(
            link, sql, replace(unit, max_rows_per_group=99), cells
        ),
    )
    one, other = exact(query, *tables(*HEAVY)), exact(query, *tables([], []))
    assert breaches(query, one, other, claims(query))


def test_joined_engine_opens_only_the_two_files(tmp_path: Path) -> None:
    """Other files in the folder and all other resources stay closed (V64)."""
    pq.write_table(trips([TRIP_ROW]), tmp_path / "trips.parquet")
    pq.write_table(stations(DUPLICATES[:1]), tmp_path / "stations.parquet")
    (tmp_path / "secret.csv").write_text("a\nSECRET-4711\n")
    query = ask(
        declare(TRIPS, source=str(tmp_path / "trips.parquet")),
        {"h": {"sum": "height"}},
        other=public_table(source=str(tmp_path / "stations.parquet")),
        join={"table": "stations", "on": {"start": "station"}},
    )
    assert query.join is not None
    frame = [1]  # noqa: F841  # a variable of this name must not be found
    with Engine.open(query.declared, joined=query.join.declared) as engine:
        assert engine.run(query).vector("h").tolist() == [6]
        for statement in (
            f"SELECT * FROM read_csv('{tmp_path}/secret.csv')",
            f"SELECT * FROM read_text('{tmp_path}/*')",
            f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
            f"ATTACH '{tmp_path}/x.duckdb' AS x",
            "SELECT * FROM frame",
            "INSTALL httpfs",
            "LOAD httpfs",
            "SET enable_external_access = true",
            f"EXPORT DATABASE '{tmp_path}/all'",
        ):
            with pytest.raises(duckdb.Error):
                engine._connection.execute(statement).fetchall()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "secret.csv",
        "stations.parquet",
        "trips.parquet",
    ]


def test_public_file_that_changes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "stations.parquet"
    pq.write_table(stations(DUPLICATES[:1]), path)
    query = public_query({}, "by number")
    declared = public_table(source=str(path))
    with Engine.open(query.declared, trips([TRIP_ROW]), declared) as engine:
        pq.write_table(stations(DUPLICATES), path)
        with pytest.raises(DpReleaseError, match="DP-DATA-"):
            engine.run(query)


@pytest.mark.parametrize("same", [True, False])
def test_joins_of_tables_in_duckdb_files(tmp_path: Path, same: bool) -> None:
    """One file may hold both; it is opened once."""
    files = [tmp_path / "a.duckdb", tmp_path / ("a.duckdb" if same else "b.duckdb")]
    for file, name, table in zip(
        files, ("trips", "stations"), (trips([TRIP_ROW]), stations(DUPLICATES[:1])), strict=True
    ):
        with duckdb.connect(file) as link:
            link.register("given", table)
            link.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    query = ask(
        declare(TRIPS, source={"path": str(files[0]), "table": "trips"}),
        {"h": {"sum": "height"}},
        other=public_table(source={"path": str(files[1]), "table": "stations"}),
        join={"table": "stations", "on": {"start": "station"}},
    )
    assert exact(query, None)["h"].tolist() == [6]
