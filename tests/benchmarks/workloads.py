"""The workloads: what is released, and the plain SQL that does the same exact work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import duckdb

from tests.benchmarks import cards, people, purchases, residents, visits
from tests.benchmarks.people import COUNTIES
from tests.benchmarks.residents import FIRST_COUNTY


@dataclass(frozen=True, slots=True)
class Workload:
    """One release; `plain` is SQL with the place `{source}`.

    `keys`: what each of its queries is by; the same columns are asked of all of them. `published`:
    SQL of the table that is written, with the place `{plain}`: cells without rows too, where plain
    SQL leaves many out. `parts`: of several tables that plain SQL gives as one, the columns of each
    and a condition on its rows.
    """

    name: str
    table: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    plain: str
    published: str = "{plain}"
    parts: tuple[tuple[str, str], ...] = ()

    def release(self) -> str:
        """Return the release file."""
        columns = "\n".join(f"      {column}" for column in self.columns)
        queries = "".join(
            f"  {self.name}{i or ''}:\n    from: {self.table}\n    {keys}\n    columns:\n{columns}\n"
            for i, keys in enumerate(self.keys)
        )
        return (
            f"title: {self.name}\ntables: [{self.table}.yaml]\nbudget: {{epsilon: 1}}\n"
            f"queries:\n{queries}output: out/{self.name}\n"
        )

    def writing(self, folder: Path) -> list[str]:
        """Return what writes the same exact tables as Parquet, one file each, by plain DuckDB."""
        plain = self.plain.format(source=folder / f"{self.table}.parquet")
        tables = [self.published.format(plain=plain)]
        before = []
        if self.parts:
            before = [f"CREATE TEMP TABLE found AS {plain}"]
            tables = [f"SELECT {names} FROM found WHERE {rows}" for names, rows in self.parts]
        form = "(FORMAT parquet, COMPRESSION zstd)"
        return before + [
            f"COPY ({table}) TO '{folder / f'plain_{i}.parquet'}' {form}"
            for i, table in enumerate(tables)
        ]


@dataclass(frozen=True, slots=True)
class Columns:
    """Tables whose columns mean the same and are stored in one way; cells and ends as SQL."""

    letter: str
    people: str
    visits: str
    counties: str
    races: str
    most_spent: int


PLAIN = Columns(
    "W",
    "people",
    "visits",
    f"SELECT 'C' || lpad(range::VARCHAR, 4, '0') AS county FROM range({COUNTIES})",
    "['A', 'B', 'C', 'D', 'E', 'F']",
    50000,
)
AS_USERS_HAVE = Columns(
    "U",
    "residents",
    "purchases",
    f"SELECT (range + {FIRST_COUNTY})::INTEGER AS county FROM range({COUNTIES})",
    "[1, 2, 3, 4, 5, 6]",
    500,
)

COUNT = 'persons: {count: "*", mechanism: discrete_laplace}'
INSIDE = "least(greatest(income, 0), 200000)"
FOUR = ("state", "sex", "race", "age")
FIVE = ("county, age, sex", "county, race", "county, sex, race", "county, age", "age, sex, race")
ALL = "county, age, sex, race"


def _one_table(given: Columns) -> tuple[Workload, ...]:
    """Return the workloads that publish one table."""
    return (
        Workload(
            f"{given.letter}1_count",
            given.people,
            ("group_by: [state, sex, race]",),
            (COUNT,),
            "SELECT state, sex, race, count(*) AS persons FROM '{source}' GROUP BY ALL ORDER BY ALL",
        ),
        Workload(
            f"{given.letter}2_sum_mean",
            given.people,
            ("group_by: [county]",),
            (
                "total: {sum: income, mechanism: discrete_laplace}",
                "middle: {mean: income, mechanism: discrete_laplace}",
            ),
            f"SELECT county, sum({INSIDE}) AS total, sum({INSIDE}) / count(income) AS middle "
            "FROM '{source}' GROUP BY ALL ORDER BY ALL",
        ),
        _bounded_workload(f"{given.letter}3_bounded", given.visits, given.most_spent),
        Workload(
            f"{given.letter}4_many_cells",
            given.people,
            (f"group_by: [{ALL}]",),
            (COUNT,),
            f"SELECT {ALL}, count(*) AS persons FROM '{{source}}' GROUP BY ALL",
            f"SELECT {ALL}, coalesce(persons, 0) AS persons FROM ({given.counties}) "
            "CROSS JOIN (SELECT range::INTEGER AS age FROM range(116)) "
            "CROSS JOIN (SELECT unnest(['F', 'M']) AS sex) "
            f"CROSS JOIN (SELECT unnest({given.races}) AS race) "
            f"LEFT JOIN ({{plain}}) USING ({ALL})",
        ),
        Workload(
            f"{given.letter}5_quartiles",
            given.people,
            ("group_by: [state]",),
            (
                'low: {quantile: {of: income, at: "0.25"}}',
                "middle: {median: income}",
                'high: {quantile: {of: income, at: "0.75"}}',
            ),
            f"SELECT state, quantile_disc({INSIDE}, 0.25) AS low, quantile_disc({INSIDE}, 0.5) AS "
            f"middle, quantile_disc({INSIDE}, 0.75) AS high FROM '{{source}}' "
            "GROUP BY ALL ORDER BY ALL",
        ),
    )


def _bounded_workload(name: str, table: str, most_spent: int) -> Workload:
    """Return the workload that keeps at most five rows of each person."""
    spent = f"least(greatest(spent, 0), {most_spent})"
    return Workload(
        name,
        table,
        ("group_by: [store]",),
        (
            'n: {count: "*", mechanism: discrete_laplace}',
            "total: {sum: spent, mechanism: discrete_laplace}",
        ),
        f"SELECT store, count(*) AS n, sum({spent}) AS total FROM "
        "(SELECT * FROM '{source}' QUALIFY row_number() OVER "
        "(PARTITION BY user_id ORDER BY hash(user_id, store, spent)) <= 5) "
        "GROUP BY ALL ORDER BY ALL",
    )


def _several_tables(given: Columns) -> tuple[Workload, ...]:
    """Return the workloads that publish several tables of the same rows."""
    subsets = [keys for size in range(5) for keys in combinations(FOUR, size)]
    sets = ", ".join(f"({keys})" for keys in FIVE)
    return (
        Workload(
            f"{given.letter}6_marginals",
            given.people,
            (f"cube: [{', '.join(FOUR)}]",),
            (COUNT,),
            f"SELECT {', '.join(FOUR)}, count(*) AS persons, GROUPING_ID({', '.join(FOUR)}) AS part "
            f"FROM '{{source}}' GROUP BY CUBE ({', '.join(FOUR)})",
            parts=tuple(_part(FOUR, keys, "persons") for keys in subsets),
        ),
        Workload(
            f"{given.letter}7_five_tables",
            given.people,
            tuple(f"group_by: [{keys}]" for keys in FIVE),
            (COUNT, "total: {sum: income, mechanism: discrete_laplace}"),
            f"SELECT {ALL}, count(*) AS persons, sum({INSIDE}) AS total, GROUPING_ID({ALL}) AS part "
            f"FROM '{{source}}' GROUP BY GROUPING SETS ({sets})",
            parts=tuple(
                _part(ALL.split(", "), keys.split(", "), "persons, total") for keys in FIVE
            ),
        ),
    )


def _part(every: Sequence[str], keys: Sequence[str], counted: str) -> tuple[str, str]:
    """Return what a table of these keys has, and which rows of all of them are its own."""
    named = [key for key in every if key in keys]
    number = sum(2**i for i, key in enumerate(reversed(every)) if key not in named)
    return ", ".join([*named, counted]), f"part = {number}"


WORKLOADS = (
    *(w for given in (PLAIN, AS_USERS_HAVE) for w in _one_table(given) + _several_tables(given)),
    _bounded_workload("U8_bounded_by_text_ids", "cards", AS_USERS_HAVE.most_spent),
)


def make(folder: Path, rows: int) -> Path:
    """Return `folder`, filled with all tables, their schemas and one release file a workload."""
    people.make(folder, rows)
    for table in (visits, residents, purchases, cards):
        name = table.__name__.rsplit(".", 1)[1]
        fill(folder / f"{name}.parquet", table.ROWS_SQL.format(rows=rows))
        (folder / f"{name}.yaml").write_text(table.schema(f"{name}.parquet"))
    for work in WORKLOADS:
        (folder / f"{work.name}.yaml").write_text(work.release())
    return folder


def fill(target: Path, query: str) -> None:
    """Write the rows of a query as a Parquet file, unless it is there."""
    if target.exists():
        return
    half_made = target.with_suffix(".part")
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute(f"COPY ({query}) TO '{half_made}' (FORMAT parquet)")
    half_made.rename(target)
