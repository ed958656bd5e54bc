"""Private keys from declaration to Parquet: what is published, limited and charged."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dprelease
from dprelease.errors import BudgetError, DpReleaseError, QueryError
from dprelease.exact.duckdb import Engine
from dprelease.noise.noised_answers import answer_query, key_threshold
from dprelease.numerics.lattice import sample
from dprelease.planning.plan import make_plan
from dprelease.planning.prepare import prepare
from dprelease.query.grouping.private_keys import PrivateKeys
from dprelease.query.resolve import Query
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import declaration_from_texts, read_declaration
from dprelease.schema.release import BudgetSpec
from dprelease.schema.release_parts.query_parts import PrivateKeysSpec
from dprelease.tables.published_columns import published_arrays
from tests.covering import examples, thinned
from tests.exact.build import ask, declare
from tests.exact.reference import digest
from tests.replay import Keyed
from tests.verification.forging import read, seal

COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "job": {"type": "text"},
    "zip": {"type": "integer"},
    "sex": {"type": "category", "values": ["F", "M"], "others": "M"},
    "day": {"type": "date"},
    "pay": {"type": "number", "lower": 0, "upper": 100, "step": 1},
}
UNITS = [
    {},
    {"id": "id", "max_groups": 1, "max_rows_per_group": 1},
    {"id": "id", "max_groups": 2, "max_rows_per_group": 2},
]


def query(unit: dict[str, Any], by: list[str], **keys: Any) -> Query:
    more = {"privacy_unit": unit} if unit else {}
    return ask(declare(COLUMNS, **more), {"n": {"count": "*"}}, by, private_keys=keys or "true")


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.sampled_from([None, 1, 1, 2, 3]),
            "job": st.sampled_from([None, "", "a", "1:a", "ab", "é", "a|b"]),
            "zip": st.sampled_from([None, 5, -5, 2**62]),
            "sex": st.sampled_from([None, "F", "M", "X"]),
            "day": st.sampled_from([None, "2024-01-05"]),
            "pay": st.just(1.0),
        }
    ),
    max_size=16,
)
TYPES = pa.schema(
    [("id", pa.int64()), ("job", pa.string()), ("zip", pa.int64()), ("sex", pa.string()),
     ("day", pa.string()), ("pay", pa.float64())]
)  # fmt: skip


def partitions(asked: Query, rows: list[dict[str, Any]]) -> dict[str, int]:
    with Engine.open(asked.declared, pa.Table.from_pylist(rows, schema=TYPES)) as engine:
        found = engine.partitions(asked)
    return dict(zip(found.names, found.units.tolist(), strict=True))


def reference(asked: Query, rows: list[dict[str, Any]]) -> dict[str, int]:
    """Return the units of each partition, in plain Python."""
    names = [name for name, _ in asked.private.columns]
    seen: dict[Any, set[str]] = defaultdict(set)
    for number, row in enumerate(rows):
        values = [row[name] for name in names]
        if "sex" in names and row["sex"] is not None:
            values[names.index("sex")] = row["sex"] if row["sex"] in ("F", "M") else "M"
        person = number if asked.unit.id is None else row["id"]
        if None not in values and person is not None:
            seen[person].add("".join(f"{len(str(v))}:{v}" for v in values))
    found: Counter[str] = Counter()
    for person, held in seen.items():
        most = len(held) if asked.unit.id is None else asked.unit.max_groups
        found.update(sorted(held, key=lambda cell: (digest([person, cell]), cell))[:most])
    return dict(found)


@pytest.mark.parametrize(
    ("unit", "by"),
    thinned(UNITS, [["job"], ["job", "zip"], ["sex", "day"]], together=1),
    ids=str,
)
@examples(8)
@given(rows=ROWS)
def test_partitions_and_their_persons(unit: dict[str, Any], by: list[str], rows: Any) -> None:
    """As in plain Python; a unit that goes moves at most `max_groups` partitions by one (V33)."""
    asked = query(unit, by)
    whole = partitions(asked, rows)
    assert whole == reference(asked, rows)
    for person in {row["id"] for row in rows} if unit else ():
        rest = partitions(asked, [row for row in rows if row["id"] != person])
        moved = [abs(whole.get(k, 0) - rest.get(k, 0)) for k in {*whole, *rest}]
        assert sum(moved) <= asked.unit.max_groups
        assert max(moved, default=0) <= 1


@given(st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4)), max_size=6, unique=True))
def test_partitions_have_distinct_texts(values: list[tuple[str, str]]) -> None:
    keys = PrivateKeys((("a", "text"), ("b", "text")))
    texts = ["".join(f"{len(part)}:{part}" for part in pair) for pair in values]
    assert len(set(texts)) == len(values)
    assert [keys.values(text) for text in texts] == values


SCHEMA = """\
table: people
source: people.csv
privacy_unit: {id: id, max_groups: 2, max_rows_per_group: 1}
columns:
  id: {type: integer}
  job: {type: text}
  sex: {type: category, values: [F, M]}
  pay: {type: number, lower: 0, upper: 100, step: 1}
"""
RELEASE = """\
title: Jobs
tables: [people.yaml]
budget: {epsilon: 4, delta: 1e-6}
mechanism: discrete_laplace
queries:
  optimal:
    from: people
    group_by: [job, sex]
    private_keys: true
    columns:
      persons: {count: "*", margin: true}
      pay: {mean: pay}
      mid: {median: pay}
  thresholded:
    from: people
    group_by: job
    private_keys: {mechanism: truncated_laplace}
    columns:
      persons: {count_distinct: id}
output: out
"""


QUERIES = ("optimal", "thresholded")


def write(folder: Path, release: str = RELEASE) -> Path:
    frame = pd.DataFrame({"id": range(3000)})
    frame["job"] = np.where(frame["id"] < 2999, "baker", "the only astronaut")
    frame.loc[frame["id"] % 3 == 0, "job"] = "smith"
    frame["sex"] = np.where(frame["id"] % 2, "F", "M")
    frame["pay"] = frame["id"] % 90
    frame.to_csv(folder / "people.csv", index=False)
    (folder / "people.yaml").write_text(SCHEMA)
    (folder / "release.yaml").write_text(release)
    return folder / "release.yaml"


def largest_noise(folder: Path) -> dict[tuple[str, str], float]:
    """Return the noise that is exceeded with probability 1e-11, by query and measurement."""
    _, plan = prepare(read_declaration(folder / "release.yaml"))
    return {(c.query.name, c.measurement.name): float(c.margin(1 - 1e-11)) for c in plan.columns}


def test_frequent_keys_are_published_and_rare_ones_are_not(tmp_path: Path) -> None:
    """Keys of many persons are published with every column; the key of one person is not."""
    quiet = RELEASE.replace("epsilon: 4", "epsilon: 90")
    out = dprelease.read_release(write(tmp_path, quiet)).run()
    optimal = pq.read_table(out / "optimal.parquet").to_pandas()
    assert optimal[["job", "sex"]].to_numpy().tolist() == [
        ["baker", "F"], ["baker", "M"], ["smith", "F"], ["smith", "M"],
    ]  # fmt: skip
    margins = largest_noise(tmp_path)
    assert margins["optimal", "persons"] < 10
    assert optimal["persons"].tolist() == pytest.approx(
        [1000, 1000, 500, 500], abs=margins["optimal", "persons"]
    )
    assert optimal["pay"].tolist() == pytest.approx([44.7, 44.7, 44.7, 41.7], abs=1)
    assert optimal["mid"].tolist() == pytest.approx([45] * 4, abs=5)
    numbers = pq.read_table(out / "thresholded.parquet").to_pandas()
    assert numbers["job"].tolist() == ["baker", "smith"]
    assert margins["thresholded", "private_keys"] < 10
    assert numbers["persons"].tolist() == pytest.approx(
        [2000, 1000], abs=margins["thresholded", "private_keys"]
    )
    assert dprelease.verify(out).ok
    record = json.loads((out / "manifest.json").read_text())
    assert "astronaut" not in (out / "manifest.json").read_text()
    vectors = [m["column"] for m in record["measurements"] if m["query"] == "thresholded"]
    assert vectors == ["private_keys"]  # the number of persons has the same noise
    assert {m["cells"] for m in record["measurements"]} == {None}


def test_row_order_does_not_change_private_keys(tmp_path: Path) -> None:
    """The same bits publish the same bytes: each partition has its draw, wherever rows stand."""
    jobs = np.repeat([f"job {i}" for i in range(400)], np.arange(400) % 80 + 1)
    frame = pd.DataFrame({"id": np.arange(len(jobs)), "job": jobs, "sex": "F", "pay": 5})
    made = []
    for seed in (None, 1, 2):
        folder = tmp_path / str(seed)
        folder.mkdir()
        path = write(folder)
        rows = frame if seed is None else frame.sample(frac=1, random_state=seed)
        rows.to_csv(folder / "people.csv", index=False)
        made.append(run(read_declaration(path), bits=Keyed("order")))
    tables = [[(out / f"{name}.parquet").read_bytes() for out in made] for name in QUERIES]
    assert all(len(set(same)) == 1 for same in tables)
    numbers = [pq.read_table(made[0] / f"{name}.parquet").num_rows for name in QUERIES]
    assert min(numbers) > 50  # so many others could have had each draw


@pytest.mark.parametrize("shift", range(3))
def test_noisy_counts_decide_and_are_published(shift: int) -> None:
    """With the same random words, each number is truth plus noise, and the larger are published."""
    unit = {"id": "id", "max_groups": 1, "max_rows_per_group": 1}
    asked = ask(
        declare(COLUMNS, privacy_unit=unit),
        {"persons": {"count_distinct": "id"}},
        ["job"],
        private_keys={"mechanism": "truncated_laplace"},
    )
    columns = make_plan(
        [asked], BudgetSpec(epsilon=Fraction(1, 2), delta=Fraction(1, 10**4))
    ).columns
    (law,) = [c.mechanism for c in columns if c.measurement.name == "private_keys"]
    least = key_threshold(law)
    assert law.tail(least, True).is_zero()  # noise alone never reaches it, and just reaches it
    assert not law.tail(least - 1, True).is_zero()
    names = [f"job {i:02d}" for i in range(61)]  # from far below the threshold to far above
    numbers = [max(1, least + (i - 30) // 2 + shift) for i in range(len(names))]
    jobs = np.repeat(names, numbers)
    frame = pd.DataFrame({"id": np.arange(len(jobs)), "job": jobs})
    for name in ("zip", "sex", "day", "pay"):
        frame[name] = pd.Series([None] * len(frame), dtype="str")
    with Engine.open(asked.declared, frame) as engine:
        found = engine.partitions(asked)
        answer = answer_query(engine, columns, Keyed(f"drawn {shift}"))
    noise = sample(law.noise_distribution, len(found.names), Keyed(f"drawn {shift}"))
    true = dict(zip(names, numbers, strict=True))
    noised = {
        asked.private.values(name)[0]: true[asked.private.values(name)[0]] + drawn
        for name, drawn in zip(found.names, noise.tolist(), strict=True)
    }
    (column,) = answer.query.columns
    told = [asked.private.values(str(name))[0] for name in answer.query.keys.keys[0].values]
    arrays = published_arrays(answer.query, column, answer.noisy.columns, {"private_keys": law})
    published = dict(zip(told, arrays["persons"].to_pylist(), strict=True))
    assert published == {name: number for name, number in noised.items() if number >= least}
    by_true = {name for name, number in true.items() if number >= least}
    assert by_true - set(published)  # noise decided, both ways
    assert set(published) - by_true
    assert any(number != true[name] for name, number in published.items())


def test_selection_is_charged_for_max_groups() -> None:
    """Every column and the selection spend for as many groups as a unit may have."""
    (columns,) = [
        make_plan(
            [query(UNITS[2], ["job"])], BudgetSpec(epsilon=Fraction(1), delta=Fraction(1, 10**6))
        ).columns
    ]
    assert {column.measurement.sensitivity.slots for column in columns} == {2}
    law = columns[0].mechanism
    assert law.delta * 2 <= 1e-6
    given_ = query(UNITS[2], ["job"], delta="1e-8")
    plan = make_plan([given_], BudgetSpec(epsilon=Fraction(1), delta=Fraction(1, 10**6)))
    assert plan.columns[0].mechanism.delta <= 5e-9


@pytest.mark.parametrize(
    "budget", [BudgetSpec(epsilon=Fraction(1)), BudgetSpec(rho=Fraction(1, 10))]
)
def test_budgets_without_delta_are_refused(budget: BudgetSpec) -> None:
    """(V33)"""
    with pytest.raises(BudgetError, match=r"DP-BUDGET-0(04|10|11)|DP-MECH"):
        make_plan([query({}, ["job"])], budget)


RHO_RELEASE = (
    RELEASE.replace("epsilon: 4,", "rho: 50,")
    .replace("truncated_laplace", "auto")
    .replace("discrete_laplace", "discrete_gaussian")
)


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_private_keys_with_rho_budget(neighbours: str, tmp_path: Path) -> None:
    """Keys of many are published, with the delta that their selection spends of the budget's."""
    text = RHO_RELEASE.replace("1e-6}", f"1e-6, neighbours: {neighbours}}}")
    out = dprelease.read_release(write(tmp_path, text)).run()
    optimal = pq.read_table(out / "optimal.parquet").to_pandas()
    assert optimal[["job", "sex"]].to_numpy().tolist() == [
        ["baker", "F"], ["baker", "M"], ["smith", "F"], ["smith", "M"],
    ]  # fmt: skip
    assert pq.read_table(out / "thresholded.parquet").to_pandas()["persons"].tolist() == (
        pytest.approx([2000, 1000], abs=5)
    )
    record = json.loads((out / "manifest.json").read_text())
    selections = [m for m in record["measurements"] if m["column"] == "private_keys"]
    assert [m["mechanism"] for m in selections] == ["gaussian_threshold"] * 2
    guarantee = record["guarantee"]
    assert float(guarantee["rho"]) <= 50
    assert 0 < float(guarantee["rho_delta"]) <= 5e-7
    assert "astronaut" not in (out / "manifest.json").read_text()
    report = dprelease.verify(out, certify=True)
    assert report.ok
    assert [claim.verdict for claim in report.certificate.claims] == ["proved"] * 2


@pytest.mark.parametrize("claimed", ["1e-20", None])
def test_wrong_rho_delta_is_found(claimed: str | None, tmp_path: Path) -> None:
    out = dprelease.read_release(write(tmp_path, RHO_RELEASE)).run()
    record = read(out)
    record["guarantee"]["rho_delta"] = claimed
    if claimed is None:
        del record["guarantee"]["rho_delta"]
    seal(out, record)
    report = dprelease.verify(out)
    assert any("rho_delta" in finding.place.key for finding in report.findings)


def test_deltas_of_selections_stay_below_budget_delta() -> None:
    """The deltas of keys add up; together they stay below the delta of the budget."""
    budget = BudgetSpec(rho=Fraction(1, 10**4), delta=Fraction(1, 10**6))
    asked = query(UNITS[2], ["job"], mechanism="gaussian_threshold", delta="9e-7")
    assert make_plan([asked], budget).guarantee.rho_delta <= 9e-7
    with pytest.raises(BudgetError, match="DP-BUDGET-004"):
        make_plan([asked, replace(asked, name="again")], budget)
    asked = query(UNITS[2], ["job"], mechanism="gaussian_threshold")
    plan = make_plan([asked, replace(asked, name="again")], budget)
    assert plan.columns[0].mechanism.name == "gaussian_threshold"
    assert 4e-7 < plan.guarantee.rho_delta <= 5e-7
    assert 0.999e-4 < plan.guarantee.rho <= 1e-4


@pytest.mark.parametrize("budget", ["{rho: 50, delta: 1e-6}", "{epsilon: 90, delta: 1e-6}"])
@pytest.mark.parametrize(
    "finder", [*get_args(PrivateKeysSpec.model_fields["mechanism"].annotation)]
)
def test_private_keys_without_columns(budget: str, finder: str, tmp_path: Path) -> None:
    """A query without columns publishes the selected keys, and charges their selection only."""
    if "rho" in budget and finder == "truncated_laplace":
        return  # it has no rho
    text = (
        f"title: Jobs\ntables: [people.yaml]\nbudget: {budget}\nqueries:\n"
        f"  jobs: {{from: people, group_by: [job], private_keys: {{mechanism: {finder}}}}}\n"
        f"  both: {{from: people, marginals: [[job], [job, sex]], private_keys: {{mechanism: {finder}}}}}\n"
        "output: out\n"
    )
    path = write(tmp_path, text)
    out = dprelease.read_release(path).run()
    jobs = pq.read_table(out / "jobs.parquet")
    assert jobs.column_names == ["job"]
    assert jobs["job"].to_pylist() == ["baker", "smith"]
    assert pq.read_table(out / "both_job_sex.parquet").num_rows == 4
    record = json.loads((out / "manifest.json").read_text())
    assert {m["column"] for m in record["measurements"]} == {"private_keys"}
    assert "astronaut" not in (out / "manifest.json").read_text()
    assert dprelease.verify(out, certify=True).ok
    added = pa.table({"job": ["baker", "smith", "baker"]})
    pq.write_table(added, out / "jobs.parquet")
    assert not dprelease.verify(out).ok
    (tmp_path / "people.csv").write_text("id,job,sex,pay\n")
    path.write_text(text.replace("output: out", "output: empty"))
    empty = dprelease.read_release(path).run()
    assert pq.read_table(empty / "jobs.parquet").num_rows == 0
    assert dprelease.verify(empty).ok


@pytest.mark.parametrize(
    "query", ["group_by: [sex]", "cube: [job], private_keys: true", "group_by: [job], columns: {}"]
)
def test_only_private_keys_need_no_columns(query: str, tmp_path: Path) -> None:
    head = RELEASE.split("queries:")[0]
    path = write(tmp_path, f"{head}queries: {{q: {{from: people, {query}}}}}\noutput: out\n")
    with pytest.raises(DpReleaseError, match=r"DP-DECL-003.*columns"):
        dprelease.read_release(path)


SEVERAL: dict[str, tuple[str, list[str]]] = {
    "cube": ("cube: [job, sex]", ["", "job", "sex", "job, sex"]),
    "rollup": ("rollup: [job, sex]", ["", "job", "job, sex"]),
    "hierarchy": ("hierarchy: [job, sex]", ["", "job", "sex"]),
    "marginals": ("marginals: [[], [sex], [job, sex]]", ["", "sex", "job, sex"]),
}
FINDERS = {
    "optimal": "true",
    "truncated": "{mechanism: truncated_laplace}",
    "gaussian": "{mechanism: gaussian_threshold}",
}


@pytest.mark.share(0.5)
@pytest.mark.parametrize(("way", "finder"), thinned(list(SEVERAL), list(FINDERS), together=1))
def test_each_table_selects_and_pays_for_its_keys(way: str, finder: str, tmp_path: Path) -> None:
    """As queries of their own do, to the last bit; the cell of all rows is public."""
    asked, tables = SEVERAL[way]
    columns = 'columns: {n: {count: "*"}, pay: {mean: pay}}'
    head, found = RELEASE.split("queries:")[0] + "queries:\n", f"private_keys: {FINDERS[finder]}"
    together = f"  q: {{from: people, {asked}, {found}, {columns}}}\noutput: out\n"
    single = [
        f"  q{i}: {{from: people, {f'group_by: [{keys}], {found}, ' if keys else ''}{columns}}}\n"
        for i, keys in enumerate(tables)
    ]
    paths = []
    for name, text in (("together", together), ("single", "".join(single) + "output: out\n")):
        (tmp_path / name).mkdir()
        paths.append(write(tmp_path / name, head + text))
    _, whole = prepare(read_declaration(paths[0]))
    _, apart = prepare(read_declaration(paths[1]))
    assert whole.guarantee == apart.guarantee
    assert [c.mechanism for c in whole.columns] == [c.mechanism for c in apart.columns]
    selections = [c for c in whole.columns if c.measurement.finds_keys]
    assert len(selections) == len(tables) - 1
    outs = [run(read_declaration(path), bits=Keyed("several")) for path in paths]
    names = ["q_" + ("_".join(keys.split(", ")) if keys else "total") for keys in tables]
    for i, name in enumerate(names):
        made = [
            pq.read_table(outs[0] / f"{name}.parquet"),
            pq.read_table(outs[1] / f"q{i}.parquet"),
        ]
        assert made[0].equals(made[1])
    assert pq.read_table(outs[0] / "q_total.parquet").num_rows == 1
    assert "astronaut" not in (outs[0] / "manifest.json").read_text()
    assert dprelease.verify(outs[0]).ok


@pytest.mark.parametrize(("unit", "finder"), thinned([0, 1, 2], list(FINDERS), together=1))
def test_private_keys_in_consistent_tables_are_refused(unit: int, finder: str) -> None:
    """With the same message for every privacy unit."""
    mechanisms = {"truncated": "truncated_laplace", "gaussian": "gaussian_threshold"}
    found = {"private_keys": {} if finder == "optimal" else {"mechanism": mechanisms[finder]}}
    query = {"from": "t", "cube": ["job", "sex"], "consistent": True, **found}
    query |= {"columns": {"n": {"count": "*"}}}
    unit_of = {"privacy_unit": UNITS[unit]} if UNITS[unit] else {}
    texts = {
        "t.yaml": json.dumps({"table": "t", "source": "t.csv", "columns": COLUMNS, **unit_of}),
        "r.yaml": json.dumps(
            {"title": "t", "tables": ["t.yaml"], "budget": {"epsilon": 1, "delta": 1e-6},
             "queries": {"q": query}, "output": "out"}
        ),
    }  # fmt: skip
    with pytest.raises(QueryError, match=r"private_keys\nDP-QUERY-013 .* keys are not public"):
        prepare(declaration_from_texts(texts, "r.yaml"))


def test_column_may_be_named_private_keys(tmp_path: Path) -> None:
    asked = RELEASE.split("queries:")[0].replace("epsilon: 4", "epsilon: 90") + (
        "queries: {q: {from: people, group_by: [sex], columns: {private_keys: {count: '*'}}}}\n"
        "output: out\n"
    )
    out = dprelease.read_release(write(tmp_path, asked)).run()
    found = pq.read_table(out / "q.parquet").to_pandas()["private_keys"].tolist()
    assert found == pytest.approx([1500, 1500], abs=10)
    assert dprelease.verify(out).ok


def test_private_keys_of_an_empty_table(tmp_path: Path) -> None:
    path = write(tmp_path)
    (tmp_path / "people.csv").write_text("id,job,sex,pay\n")
    out = dprelease.read_release(path).run()
    assert pq.read_table(out / "optimal.parquet").num_rows == 0
    assert dprelease.verify(out).ok


def test_tampered_rows_are_found(tmp_path: Path) -> None:
    out = dprelease.read_release(write(tmp_path)).run()
    table = pq.read_table(out / "thresholded.parquet")
    pq.write_table(table.slice(0, 1), out / "thresholded.parquet")
    assert not dprelease.verify(out).ok


def test_histograms_with_private_keys(tmp_path: Path) -> None:
    """Bands of a column as a key; the closed side is the declared one."""
    text = (
        RELEASE.split("queries:")[0]
        + """\
queries:
  pays:
    from: people
    group_by: sex
    histogram: {column: pay, edges: [0, 30, 60, 100], closed: left}
    columns: {persons: {count: "*"}}
  right:
    from: people
    histogram: {column: pay, edges: [0, 30, 60, 100], closed: right}
    columns: {persons: {count: "*"}}
output: out
"""
    )
    out = dprelease.read_release(write(tmp_path, text)).run()
    left = pq.read_table(out / "pays.parquet").to_pandas()
    assert left["pay_band"].tolist() == ["0-29", "30-59", "60-99"] * 2
    assert left["persons"].tolist() == pytest.approx([500] * 6, abs=40)
    right = pq.read_table(out / "right.parquet").to_pandas()
    assert right["pay_band"].tolist() == ["1-30", "31-60", "61-100"]
    assert right["persons"].tolist() == pytest.approx([1000, 1000, 967], abs=40)
    assert dprelease.verify(out).ok
