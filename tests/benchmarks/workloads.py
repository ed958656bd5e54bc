"""The workloads: what is released, and the plain SQL that does the same exact work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb

from tests.benchmarks import people, visits
from tests.benchmarks.people import COUNTIES


@dataclass(frozen=True, slots=True)
class Workload:
    """One release; `plain` is SQL with the place `{source}`.

    `keys`: what each of its queries is by; the same columns are asked of all of them. `published`:
    by hand, the SQL of what noise is added to, with the place `{plain}`: cells without rows too,
    where plain SQL leaves many out.
    """

    name: str
    table: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    plain: str
    published: str = "{plain}"

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


FIVE = ("county, age, sex", "county, race", "county, sex, race", "county, age", "age, sex, race")
INSIDE = "least(greatest(income, 0), 200000)"
WORKLOADS = (
    Workload(
        "W1_count",
        "people",
        ("group_by: [state, sex, race]",),
        ('persons: {count: "*", mechanism: discrete_laplace}',),
        "SELECT state, sex, race, count(*) AS persons FROM '{source}' GROUP BY ALL ORDER BY ALL",
    ),
    Workload(
        "W2_sum_mean",
        "people",
        ("group_by: [county]",),
        (
            "total: {sum: income, mechanism: discrete_laplace}",
            "middle: {mean: income, mechanism: discrete_laplace}",
        ),
        f"SELECT county, sum({INSIDE}) AS total, sum({INSIDE}) / count(income) AS middle "
        "FROM '{source}' GROUP BY ALL ORDER BY ALL",
    ),
    Workload(
        "W3_bounded",
        "visits",
        ("group_by: [store]",),
        (
            'n: {count: "*", mechanism: discrete_laplace}',
            "total: {sum: spent, mechanism: discrete_laplace}",
        ),
        "SELECT store, count(*) AS n, sum(least(greatest(spent, 0), 50000)) AS total FROM "
        "(SELECT * FROM '{source}' QUALIFY row_number() OVER "
        "(PARTITION BY user_id ORDER BY hash(user_id, store, spent)) <= 5) "
        "GROUP BY ALL ORDER BY ALL",
    ),
    Workload(
        "W4_many_cells",
        "people",
        ("group_by: [county, age, sex, race]",),
        ('persons: {count: "*", mechanism: discrete_laplace}',),
        "SELECT county, age, sex, race, count(*) AS persons FROM '{source}' GROUP BY ALL",
        "SELECT county, age, sex, race, coalesce(persons, 0) AS persons FROM "
        f"(SELECT 'C' || lpad(range::VARCHAR, 4, '0') AS county FROM range({COUNTIES})) "
        "CROSS JOIN (SELECT range::INTEGER AS age FROM range(116)) "
        "CROSS JOIN (SELECT unnest(['F', 'M']) AS sex) "
        "CROSS JOIN (SELECT unnest(['A', 'B', 'C', 'D', 'E', 'F']) AS race) "
        "LEFT JOIN ({plain}) USING (county, age, sex, race)",
    ),
    Workload(
        "W5_quartiles",
        "people",
        ("group_by: [state]",),
        (
            'low: {quantile: {of: income, at: "0.25"}}',
            "middle: {median: income}",
            'high: {quantile: {of: income, at: "0.75"}}',
        ),
        f"SELECT state, quantile_disc({INSIDE}, 0.25) AS low, quantile_disc({INSIDE}, 0.5) AS "
        f"middle, quantile_disc({INSIDE}, 0.75) AS high FROM '{{source}}' GROUP BY ALL ORDER BY ALL",
    ),
    Workload(
        "W6_marginals",
        "people",
        ("cube: [state, sex, race, age]",),
        ('persons: {count: "*", mechanism: discrete_laplace}',),
        "SELECT state, sex, race, age, count(*) AS persons FROM '{source}' "
        "GROUP BY CUBE (state, sex, race, age)",
    ),
    Workload(
        "W7_five_tables",
        "people",
        tuple(f"group_by: [{keys}]" for keys in FIVE),
        (
            'persons: {count: "*", mechanism: discrete_laplace}',
            "total: {sum: income, mechanism: discrete_laplace}",
        ),
        f"SELECT county, age, sex, race, count(*) AS persons, sum({INSIDE}) AS total "
        f"FROM '{{source}}' GROUP BY GROUPING SETS ({', '.join(f'({keys})' for keys in FIVE)})",
    ),
)


def make(folder: Path, rows: int) -> Path:
    """Return `folder`, filled with both tables, their schemas and one release file a workload."""
    people.make(folder, rows)
    _fill(folder / "visits.parquet", visits.ROWS_SQL.format(rows=rows))
    (folder / "visits.yaml").write_text(visits.schema("visits.parquet"))
    for work in WORKLOADS:
        (folder / f"{work.name}.yaml").write_text(work.release())
    return folder


def _fill(target: Path, query: str) -> None:
    """Write the rows of a query as a Parquet file, unless it is there."""
    if target.exists():
        return
    half_made = target.with_suffix(".part")
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute(f"COPY ({query}) TO '{half_made}' (FORMAT parquet)")
    half_made.rename(target)
