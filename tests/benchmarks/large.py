"""`make bench ARGS=--large`: a release of 200 tables of many rows, and a plan of 10,000 queries.

Whole processes, ours beside plain DuckDB that writes the same exact tables: for each group of
tables (marginals, sums, medians) the fastest of the single statements that give all of them.
"""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path

import duckdb

from tests.benchmarks.aggregation import Taken, process

ROWS = 200_000_000
FILES = 16
SIZES = {
    "state": 51, "sex": 2, "race": 6, "age": 116, "hours": 25, "month": 12, "weekday": 7,
    "tenure": 9, "rooms": 10, "heat": 5, "travel": 12, "degree": 20,
}  # fmt: skip
TEXTS = ("state", "sex", "heat")
SUMS = tuple(f"amount{i}" for i in range(10))
TWO = tuple(combinations(SIZES, 2))
MARGINALS = TWO + tuple(combinations(SIZES, 3))[: 185 - len(TWO)]
BY_SUMS = (
    "state",
    "race",
    "age",
    "hours",
    "month",
    "weekday",
    "tenure",
    "rooms",
    "travel",
    "degree",
)
BY_MEDIANS = ("state", "sex", "race", "month", "degree")
QUERIES = 10_000


def rows_sql(first: int, last: int) -> str:
    """Return the rows from a first one on: whole numbers, texts, floats with cents and nulls."""
    keys = [
        f"chr(65 + (hash(range, {i}) % {size} // 26)::INTEGER) || chr(65 + (hash(range, {i}) % {size} % 26)"
        f"::INTEGER) AS {name}"
        if name in TEXTS
        else f"(hash(range, {i}) % {size})::INTEGER AS {name}"
        for i, (name, size) in enumerate(SIZES.items())
    ]
    numbers = [
        f"CASE WHEN hash(range, {20 + i}) % 10 > 0 THEN (hash(range, {20 + i}) // 10 % 10000) / 100.0::DOUBLE END AS {name}"
        if i % 2
        else f"(hash(range, {20 + i}) % 1000)::INTEGER AS {name}"
        for i, name in enumerate(SUMS)
    ]
    return f"SELECT {', '.join(keys + numbers)} FROM range({first}, {last})"


def text(number: int) -> str:
    """Return the value of a text key."""
    return chr(65 + number // 26) + chr(65 + number % 26)


def schema() -> str:
    """Return the table schema."""
    lines = ["table: answers", "source: answers_*.parquet", "columns:"]
    for name, size in SIZES.items():
        if name in TEXTS:
            values = ", ".join(text(i) for i in range(size))
            lines.append(f"  {name}: {{type: category, values: [{values}]}}")
        else:
            lines.append(f"  {name}: {{type: integer, lower: 0, upper: {size - 1}}}")
    for i, name in enumerate(SUMS):
        kind = 'number, step: "0.01", upper: 100' if i % 2 else "integer, upper: 1000"
        lines.append(f"  {name}: {{type: {kind}, lower: 0}}")
    return "\n".join([*lines, ""])


def release() -> str:
    """Return the release of 200 tables."""
    lines = ["title: Large", "tables: [answers.yaml]", "budget: {epsilon: 100}", "queries:"]
    asked = [(keys, 'n: {count: "*", mechanism: discrete_laplace}') for keys in MARGINALS]
    asked += [
        ((by,), f"t: {{sum: {name}, mechanism: discrete_laplace}}")
        for by, name in zip(BY_SUMS, SUMS, strict=True)
    ]
    asked += [((by,), f"m: {{median: {SUMS[0]}}}") for by in BY_MEDIANS]
    for i, (keys, column) in enumerate(asked):
        by = ", ".join(keys)
        lines.append(f"  q{i}: {{from: answers, group_by: [{by}], columns: {{{column}}}}}")
    return "\n".join([*lines, "output: out", ""])


def statements(folder: Path) -> dict[str, list[str]]:
    """Return, for each group of tables, the single statements that give all of them."""
    source = f"'{folder / 'answers_*.parquet'}'"
    sets = ", ".join(f"({', '.join(keys)})" for keys in MARGINALS)
    names = ", ".join(SIZES)
    united = " UNION ALL ".join(
        f"SELECT {i} AS part, {_as_texts(keys)}, n FROM "
        f"(SELECT {', '.join(keys)}, count(*) AS n FROM {source} GROUP BY ALL)"
        for i, keys in enumerate(MARGINALS)
    )
    inside = "least(greatest({0}, 0), {1})"
    totals = [inside.format(name, 100 if i % 2 else 1000) for i, name in enumerate(SUMS)]
    sums = " UNION ALL ".join(
        f"SELECT {i} AS part, {by}::VARCHAR AS k, t FROM "
        f"(SELECT {by}, sum({total}) AS t FROM {source} GROUP BY ALL)"
        for i, (by, total) in enumerate(zip(BY_SUMS, totals, strict=True))
    )
    by_sets = ", ".join(f"({by})" for by in BY_SUMS)
    every = ", ".join(f"sum({total}) AS t{i}" for i, total in enumerate(totals))
    medians = " UNION ALL ".join(
        f"SELECT {i} AS part, {by}::VARCHAR AS k, m FROM "
        f"(SELECT {by}, median({SUMS[0]}) AS m FROM {source} GROUP BY ALL)"
        for i, by in enumerate(BY_MEDIANS)
    )
    grouped = ", ".join(f"({by})" for by in BY_MEDIANS)
    return {
        "marginals": [
            f"SELECT {names}, count(*) AS n FROM {source} GROUP BY GROUPING SETS ({sets})",
            united,
        ],
        "sums": [
            sums,
            f"SELECT {', '.join(BY_SUMS)}, {every} FROM {source} GROUP BY GROUPING SETS ({by_sets})",
        ],
        "medians": [
            medians,
            f"SELECT {', '.join(BY_MEDIANS)}, median({SUMS[0]}) AS m FROM {source} "
            f"GROUP BY GROUPING SETS ({grouped})",
        ],
    }


def _as_texts(keys: tuple[str, ...]) -> str:
    three = [*keys, "NULL"][:3]
    return ", ".join(f"{key}::VARCHAR AS k{i}" for i, key in enumerate(three))


def make(folder: Path, rows: int) -> None:
    """Fill a folder with the files, the schema and the releases; files that are there stay."""
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(FILES):
        target = folder / f"answers_{i:02}.parquet"
        if target.exists():
            continue
        half_made = target.with_suffix(".part")
        with duckdb.connect() as link:
            link.execute("SET enable_progress_bar = false")
            sql = rows_sql(rows * i // FILES, rows * (i + 1) // FILES)
            link.execute(f"COPY ({sql}) TO '{half_made}' (FORMAT parquet)")
        half_made.rename(target)
    (folder / "answers.yaml").write_text(schema())
    (folder / "large.yaml").write_text(release())
    tiny = [
        f"  q{i}: {{from: answers, group_by: [sex], columns: {{n: {{count: '*'}}}}}}"
        for i in range(QUERIES)
    ]
    heads = ["title: Tiny", "tables: [answers.yaml]", "budget: {epsilon: 100}", "queries:"]
    (folder / "tiny.yaml").write_text("\n".join([*heads, *tiny, "output: tiny", ""]))


def run(folder: Path, rows: int) -> dict[str, Taken]:
    """Measure once, print and return what each process took."""
    make(folder, rows)
    found: dict[str, Taken] = {}
    print(f"{f'large, {rows:,} rows':<40}{'s':>10}{'CPU s':>10}{'MB':>10}")

    def measure(name: str, command: list[str]) -> Taken:
        found[name] = process([sys.executable, *command])
        taken = found[name]
        print(f"{name:<40}{taken.seconds:>10.2f}{taken.processors:>10.2f}{taken.megabytes:>10.0f}")
        return taken

    ours = ["-m", "dprelease", "run", str(folder / "large.yaml"), "--overwrite", "--json"]
    whole = measure("200 tables", ours)
    measure("plan of 10,000 queries", ["-m", "dprelease", "plan", str(folder / "tiny.yaml")])
    best = Taken(0.0, 0.0)
    for group, several in statements(folder).items():
        taken = [
            measure(f"DuckDB, {group}, {i + 1}", ["-c", _copying(sql, folder / "plain.parquet")])
            for i, sql in enumerate(several)
        ]
        least = min(taken, key=lambda each: each.seconds)
        best = Taken(best.seconds + least.seconds, best.processors + least.processors)
    ratios = whole.seconds / best.seconds, whole.processors / best.processors
    print(f"{'ours beside the fastest of each group':<40}{ratios[0]:>10.2f}{ratios[1]:>10.2f}")
    return found


def _copying(sql: str, target: Path) -> str:
    copy = f"COPY ({sql}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)"
    return f"import duckdb; duckdb.connect().execute({copy!r})"
