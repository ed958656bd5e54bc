"""Invariants: true totals next to noised tables, labelled as exact, and no other true value."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dprelease
from dprelease.documents.manifest import Manifest
from dprelease.errors import DpReleaseError, LedgerError
from dprelease.exact import duckdb
from dprelease.exact.results.true_table import ExactTable
from dprelease.ledger.account import Account, Charge
from dprelease.ledger.ledger import Ledger
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.common.invariant import Invariant
from dprelease.noise.noised_vectors import perturb
from dprelease.numerics.entropy import Entropy
from dprelease.planning.invariant_plans import INVARIANT_MECHANISM
from dprelease.planning.plan import PlannedColumn
from dprelease.planning.prepare import prepare
from dprelease.query.resolve import Query
from dprelease.release.charging import charges_of
from dprelease.release.ledger_forecast import ledger_outlooks
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import Declaration, read_declaration
from tests.release.area_family import (
    BY_ID,
    TOWNS,
    people_rows,
    publish_family,
    read_family,
    write_family,
)
from tests.release.test_consistent import read_tables
from tests.replay import Keyed

SAID = "acknowledge: invariants are published exactly"
REPLACE = "epsilon: 1, delta: 1e-6, neighbours: replace"
BANDS = [(0, 18, "0-17"), (18, 65, "18-64"), (65, 100, "65-99")]
STATE_OF = {town: state for state, some in TOWNS.items() for town in some}


def with_invariants(invariants: str, more: str = "non_negative: true") -> str:
    return f"{{{more}{', ' if more else ''}invariants: [{invariants}], {SAID}}}"


CASES: dict[str, dict[str, Any]] = {
    "states": {"consistent": with_invariants("{level: state}")},
    "estimates": {"consistent": with_invariants("{level: state}", "")},
    "the whole": {"consistent": with_invariants("{}")},
    "leaves by sex": {"consistent": with_invariants("{level: town, table: [sex]}")},
    "nested": {"consistent": with_invariants("{level: state, table: [sex]}, {level: town}")},
    "finest at states": {"consistent": with_invariants("{level: state, table: [sex, band]}")},
    "crossing": {
        "asked": "hierarchy: [state, town]\n    cube: [sex, band]",
        "consistent": with_invariants("{level: state, table: [sex]}, {level: town, table: [band]}", ""),
    },
    "no areas": {"asked": "cube: [sex, band]", "consistent": with_invariants("{table: [sex]}")},
    "ids": {"unit": BY_ID, "consistent": with_invariants("{level: state}")},
    "one of two columns": {
        "columns": '{n: {count: "*"}, pay: {sum: pay}}',
        "consistent": with_invariants("{level: state, column: n}"),
    },
    "zeros": {
        "asked": "hierarchy: [state, town]\n    marginals: [[], [old], [band, old]]",
        "consistent": with_invariants(
            "{level: town, table: [old]}",
            "non_negative: true, zeros: [{band: [0-17, 18-64], old: 'true'}]",
        ),
    },
    "zeros that the rows contradict": {
        "asked": "hierarchy: [state, town]\n    marginals: [[], [old], [band, old]]",
        "consistent": with_invariants(
            "{level: town, table: [old]}",
            "non_negative: true, zeros: [{band: 65-99, old: 'true'}]",
        ),
    },
    "composed": {"consistent": with_invariants("{level: state}", "non_negative: true, composition: parent")},
    "records": {
        "consistent": with_invariants("{level: town}", "non_negative: true, publish: {records: true}"),
    },
    "down to states": {
        "consistent": with_invariants("{level: town}", "non_negative: true, publish: {down_to: state}"),
    },
    "targets": {
        "consistent": with_invariants("{level: state}", "targets: [{level: town, table: [sex], moe: 60}]"),
    },
    "a target of one": {
        "consistent": with_invariants("{level: state}", "targets: [{level: state, moe: 1}]"),
    },
    "laplace": {"mechanism": "laplace", "consistent": with_invariants("{level: state}")},
    "rho": {
        "budget": "rho: 0.1, delta: 1e-6, neighbours: replace",
        "consistent": with_invariants("{level: state}"),
    },
    "a pure budget": {
        "budget": "epsilon: 1, neighbours: replace", "mechanism": "discrete_laplace",
        "consistent": with_invariants("{level: state}"),
    },
}  # fmt: skip


def case_of(what: str, **more: Any) -> dict[str, Any]:
    return {"budget": REPLACE, **CASES[what], **more}


def true_counts(name: str, rows: int = 600) -> Counter[tuple[Any, ...]]:
    """Return how many people each cell of a table has, by the table's name."""
    keys = [key for key in name.removeprefix("pop_").split("_") if key != "total"]
    counts: Counter[tuple[Any, ...]] = Counter()
    for _id, town, sex, old, age, _pay in people_rows(rows):
        band = next(label for least, above, label in BANDS if least <= int(str(age)) < above)
        of = {"town": town, "state": STATE_OF[str(town)], "sex": sex, "band": band}
        of["old"] = old == "true"
        counts[tuple(of[key] for key in keys)] += 1
    return counts


def record(folder: Path) -> dict[str, Any]:
    held: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return held


def invariant_tables(folder: Path) -> list[str]:
    return [one["query"] for one in record(folder)["invariants"]]


def as_counts(table: pa.Table, column: str) -> dict[tuple[Any, ...], Any]:
    keys = [key for key in table.column_names if key in ("state", "town", "sex", "band", "old")]
    return {tuple(row[key] for key in keys): row[column] for row in table.to_pylist()}


@pytest.fixture(scope="module")
def release_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return what publishes a case, once; nobody writes into its folder."""
    return cache(lambda what: publish_family(tmp_path_factory.mktemp("case"), **case_of(what)))


@pytest.mark.share(0.15)
@pytest.mark.parametrize("what", CASES)
def test_invariants_are_exact_and_consistent(what: str, release_of: Callable[[str], Path]) -> None:
    folder = release_of(what)
    report = dprelease.verify(folder)
    assert report.ok, [str(finding) for finding in report.findings]
    assert any(note.startswith("outside the guarantee") for note in report.notes)
    exact = invariant_tables(folder)
    assert exact
    for name in exact if what != "ids" else ():
        true = true_counts(name)
        measured = as_counts(read_tables(folder, "measurements")[name], "n")
        assert {key: n for key, n in measured.items() if n} == true
        for kind in ("estimates", "tables"):
            held = read_tables(folder, kind).get(name)
            if held is not None:
                assert as_counts(held, "n") == measured
        if name in read_tables(folder, "estimates"):
            assert set(read_tables(folder, "estimates")[name]["n_se"].to_pylist()) == {0.0}
        if name in read_tables(folder, "tables"):
            whole = read_tables(folder, "tables")[name]
            assert as_counts(whole, "n_lower") == as_counts(whole, "n_upper") == measured
    for name, table in read_tables(folder, "measurements").items():
        if name not in exact and what != "ids":
            of = as_counts(table, "n")
            assert any(n != true_counts(name)[key] for key, n in of.items()), f"{name} has no noise"


@pytest.mark.share(0.25)
@pytest.mark.parametrize("what", CASES)
def test_manifest_lists_invariants_outside_the_guarantee(
    what: str, release_of: Callable[[str], Path]
) -> None:
    held = record(release_of(what))
    Manifest.model_validate(held)
    names = held["guarantee"]["invariants"]
    assert names
    assert "invariants are equal" in held["guarantee"]["holds"]
    told = [one for one in held["unprotected_quantities"] if "exactly" in one]
    assert len(told) == len(names)
    assert all(name in words for name, words in zip(names, told, strict=True))
    declared_ones = {one["name"] for one in held["invariants"] if one["exact"] == "declared"}
    assert {*names} == declared_ones
    exact = {(one["query"], one["column"]) for one in held["invariants"]}
    noised = {(one["query"], one["column"]) for one in held["measurements"]}
    assert not exact & noised
    assert not any(one["mechanism"] == "invariant" for one in held["measurements"])


def test_sums_of_invariants_are_exact_and_free(
    release_of: Callable[[str], Path],
) -> None:
    """Sums that follow from an invariant have no noise and cost no budget."""
    held = {one["query"]: one["exact"] for one in record(release_of("nested"))["invariants"]}
    assert held == {
        "pop_total": "implied",
        "pop_sex": "implied",
        "pop_state": "implied",
        "pop_state_sex": "declared",
        "pop_town": "declared",
    }


class EngineWithOwnNoise(duckdb.Engine):
    """An engine that adds noise where the cells are."""

    def noisy_vectors(self, query: Query, noise: Any) -> Iterator[dict[str, Any]]:
        exact: ExactTable = self.run(query)
        return iter([noise(exact)])


def test_invariants_with_noise_drawn_by_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duckdb, "Engine", EngineWithOwnNoise)
    folder = run(read_family(tmp_path, **case_of("states")))
    assert dprelease.verify(folder).ok
    measured = as_counts(read_tables(folder, "measurements")["pop_state"], "n")
    assert {key: n for key, n in measured.items() if n} == true_counts("pop_state")


def test_no_random_bits_are_drawn_for_invariants(tmp_path: Path) -> None:
    """So noise is independent of them: the same bits give noised tables the same noise."""
    _, plan = prepare(read_family(tmp_path, **case_of("states")))
    (column,) = plan.of_query("pop_state")
    exact = ExactTable("pop_state", 3, {"n": np.array([3, 0, 2**40])})

    class NoBits:
        def words(self, n: int) -> Any:
            raise AssertionError("an invariant has no noise")

    assert perturb(exact, [column], NoBits()).columns["n"].tolist() == [3, 0, 2**40]


@pytest.mark.parametrize("wrong", ["noise for an invariant", "no noise for a measurement"])
def test_only_declared_invariants_are_published_without_noise(wrong: str, tmp_path: Path) -> None:
    """Noise depends on the declaration, even if a plan says otherwise."""
    _, plan = prepare(read_family(tmp_path, **case_of("states")))
    (exact,) = plan.of_query("pop_state")
    (noisy,) = plan.of_query("pop_town")
    law = noisy.mechanism if wrong == "noise for an invariant" else INVARIANT_MECHANISM
    of = exact if wrong == "noise for an invariant" else noisy
    column = PlannedColumn(of.query, of.measurement, law, "declared")
    table = ExactTable(of.query.name, 6, {"n": np.arange(6)})
    with pytest.raises(TypeError):
        perturb(table, [column], Entropy())


def test_invariant_has_infinite_privacy_cost(tmp_path: Path) -> None:
    """Accounting that forgets to leave out invariants refuses the release."""
    _, plan = prepare(read_family(tmp_path, **case_of("states")))
    (exact,) = plan.of_query("pop_state")
    assert plan.budget.cost_of([exact.accounting_input]) == float("inf")
    assert plan.costs_alone().count(float("inf")) == 2
    assert isinstance(exact.mechanism, Mechanism)
    assert exact.mechanism.variance_bound_and_mean == (Fraction(0), Fraction(0))
    assert isinstance(exact.mechanism, Invariant)


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "no word": ({"consistent": "{invariants: [{level: state}]}"}, "DP-CONSIST-003", "acknowledge"),
    "another word": (
        {"consistent": "{invariants: [{level: state}], acknowledge: 'true'}"},
        "DP-CONSIST-003", "invariants are published exactly",
    ),
    "a word too many": ({"consistent": f"{{{SAID}}}"}, "DP-CONSIST-013", "no `invariants`"),
    "presence": (
        {"budget": "epsilon: 1, delta: 1e-6", "consistent": with_invariants("{level: state}")},
        "DP-CONSIST-006", "replace",
    ),
    "no such level": ({"consistent": with_invariants("{level: block}")}, "DP-CONSIST-013", "block"),
    "no such table": ({"consistent": with_invariants("{table: [band]}")}, "DP-CONSIST-013", "[band]"),
    "everything": (
        {"consistent": with_invariants("{level: town, table: [sex, band]}")},
        "DP-CONSIST-013", "nothing of 'n' would be left",
    ),
    "which column": (
        {"columns": "{n: {count: '*'}, pay: {sum: pay}}", "consistent": with_invariants("{level: state}")},
        "DP-CONSIST-013", "column",
    ),
    "no such column": (
        {"consistent": with_invariants("{level: state, column: m}")}, "DP-CONSIST-013", "not one of the columns",
    ),
    "a sum": (
        {"columns": "{pay: {sum: pay}}", "consistent": with_invariants("{level: state}")},
        "DP-CONSIST-013", "is a sum",
    ),
    "what can't be": (
        {
            "asked": "hierarchy: [state, town]\n    marginals: [[], [old], [band, old]]",
            "consistent": with_invariants(
                "{level: state, table: [band, old]}",
                "non_negative: true, zeros: [{band: 0-17, old: 'true'}]",
            ),
        },
        "DP-CONSIST-013", "cells that can't be",
    ),
    "crossing whole tables": (
        {
            "asked": "hierarchy: [state, town]\n    cube: [sex, band]",
            "consistent": with_invariants("{level: state, table: [sex]}, {table: [band]}"),
        },
        "DP-CONSIST-013", "several exact tables",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_impossible_invariants_are_refused_before_reading(what: str, tmp_path: Path) -> None:
    given, code, words = REFUSED[what]
    declaration = read_family(tmp_path, **{"budget": REPLACE, **given})
    (tmp_path / "people.csv").unlink()
    with pytest.raises(DpReleaseError) as caught:
        run(declaration)
    problems = getattr(caught.value, "findings", [caught.value])
    assert [one.code for one in problems][:1] == [code], [str(one) for one in problems]
    assert words in str(problems[0])
    assert "consistent" in str(problems[0].place)
    assert not (tmp_path / "out").exists()


NAME = "count of rows by state, of people"


def ledger(folder: Path, *invariants: str) -> Ledger:
    found = Ledger(folder / "ledger.sqlite")
    amounts = (Fraction(10), Fraction(1, 10**4), None)
    found.open_account(Account("office/people", "replace", "each row", *amounts, None, invariants))
    return found


@pytest.mark.share(0.4)
@pytest.mark.parametrize("allowed", [(), ("count of rows by town, of people",), (NAME,)])
def test_ledger_allows_invariants_by_name(allowed: tuple[str, ...], tmp_path: Path) -> None:
    declaration = read_family(tmp_path, **case_of("states", more="ledger: ledger.sqlite\n"))
    held = ledger(tmp_path, *allowed)
    if NAME not in allowed:
        with pytest.raises(LedgerError) as caught:
            run(declaration)
        assert caught.value.code == "DP-LEDGER-020"
        assert NAME in str(caught.value)
        assert len(held.history()) == 1
        assert not (tmp_path / "out/pop").exists()
        return
    folder = run(declaration)
    report = dprelease.verify(folder, ledger=tmp_path / "ledger.sqlite")
    assert report.ok, [str(finding) for finding in report.findings]
    (charge,) = held.history()[1].body["charges"]
    assert charge["invariants"] == [NAME]
    assert (
        Ledger(tmp_path / "ledger.sqlite").state().accounts["office/people"].invariants == allowed
    )


G = 'derive: {{g: {{expression: "{}", type: category, values: [f, m], fill: f, others: f}}}}\n'
BY_G = G + "    cube: [g, sex]"
FUNCTIONS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "an expression": (
        {"asked": BY_G.format("CASE WHEN pay > 30 THEN 'f' ELSE 'm' END")},
        {"asked": BY_G.format("CASE WHEN pay > 31 THEN 'f' ELSE 'm' END")},
        "{table: [g]}",
    ),
    "what a condition reads": (
        {"asked": G.format("CASE WHEN pay > 30 THEN 'f' END") + "    where: g = 'f'\n    cube: [sex, band]"},
        {"asked": G.format("CASE WHEN pay > 31 THEN 'f' END") + "    where: g = 'f'\n    cube: [sex, band]"},
        "{table: [sex]}",
    ),
    "edges": (
        {"asked": "cube: [sex, band]"},
        {"schema": ("18, 65", "21, 65")},
        "{table: [band]}",
    ),
    "rows without another key": ({"asked": "cube: [sex, band]"}, {"asked": "cube: [sex, old]"}, "{table: [sex]}"),
    "values": ({}, {"schema": ("[f, m]", "[f]")}, "{table: [sex]}"),
    "areas": ({}, {"towns": ("Bern,BE", "Bern,ZH")}, "{level: state}"),
    "bounds": ({"unit": BY_ID}, {"unit": BY_ID.replace("2", "3")}, "{level: state}"),
}  # fmt: skip


CHANGED = {"schema": "people.yaml", "towns": "towns.csv"}
"""What a case changes of the files of a declaration."""


def release_and_charge(folder: Path, what: str, *, second: bool) -> tuple[Declaration, Charge]:
    """Return one of the two releases of a case, under a ledger, and what it charges."""
    own, other, invariant = FUNCTIONS[what]
    more = {**own, **(other if second else {})}
    given = {
        "budget": REPLACE,
        "consistent": with_invariants(invariant),
        "more": "ledger: ledger.sqlite\n",
    }
    given |= {name: value for name, value in more.items() if name not in CHANGED}
    path = write_family(folder, **given)
    for file, (old, new) in ((CHANGED[name], more[name]) for name in CHANGED if name in more):
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new))
    declaration = read_declaration(path)
    (charge,) = charges_of(prepare(declaration)[1])
    return declaration, charge


@pytest.mark.share(0.18)
@pytest.mark.parametrize("what", FUNCTIONS)
def test_ledger_refuses_another_function_with_the_same_name(what: str, tmp_path: Path) -> None:
    """The difference of two exact tables is exact too, and nobody allowed it."""
    declaration, charge = release_and_charge(tmp_path, what, second=False)
    names, found = charge.invariants, Ledger(tmp_path / "ledger.sqlite")
    amounts = (Fraction(10), Fraction(1, 10**4), None)
    found.open_account(Account("office/people", "replace", charge.unit, *amounts, None, names))
    run(declaration)
    run(declaration, overwrite=True)
    declaration, other = release_and_charge(tmp_path, what, second=True)
    is_told = what in ("an expression", "what a condition reads", "edges")
    assert (other.invariants != names) is is_told  # whoever allows it reads what it is
    before = len(found.history())
    for refused in (
        partial(ledger_outlooks, declaration, *prepare(declaration)),
        partial(run, declaration, overwrite=True),
    ):
        with pytest.raises(LedgerError) as caught:
            refused()
        assert caught.value.code == ("DP-LEDGER-020" if is_told else "DP-LEDGER-022")
        assert other.invariants[0] in str(caught.value)
    assert len(found.history()) == before


def test_labels_of_columns_do_not_change_the_function(tmp_path: Path) -> None:
    charges = []
    for text in ("values: [f, m]", "label: Sex, values: {f: female, m: male}"):
        path = write_family(tmp_path, budget=REPLACE, consistent=with_invariants("{table: [sex]}"))
        schema = tmp_path / "people.yaml"
        schema.write_text(schema.read_text().replace("values: [f, m]", text))
        charges.append(charges_of(prepare(read_declaration(path))[1]))
    assert charges[0] == charges[1]


def test_keys_without_missing_values_keep_the_function(tmp_path: Path) -> None:
    """Two releases may publish the same exact totals next to different tables."""
    every = "[f, m], fill: f, others: f"
    functions = []
    for keys in ("[sex]", "[], [sex]", "[]"):
        tree = f"hierarchy: [state, town]\n    marginals: [{keys}]"
        path = write_family(tmp_path, budget=REPLACE, asked=tree, consistent=with_invariants("{level: state}") if "[]" in keys else with_invariants("{level: state, table: [sex]}"))  # fmt: skip
        schema = tmp_path / "people.yaml"
        schema.write_text(schema.read_text().replace("[f, m]", every))
        (asked_of,) = charges_of(prepare(read_declaration(path))[1])
        functions.append(asked_of.exactly)
    assert functions[0] != functions[1] == functions[2]


def test_charge_covers_noised_tables_only(tmp_path: Path) -> None:
    """The ledger is charged as much as for the same noise without invariants."""
    held = ledger(tmp_path, NAME)
    run(read_family(tmp_path, **case_of("states", more="ledger: ledger.sqlite\n")))
    (charge,) = held.history()[1].body["charges"]
    assert {event["query"] for event in charge["events"]}.isdisjoint({"pop_state", "pop_total"})
    assert len(charge["events"]) == 7
    assert 0 < float(charge["price"]) < 1


def rewrite_column(path: Path, column: str, change: Any) -> None:
    table = pq.read_table(path)
    values = pa.array(change(table[column].to_numpy()), pa.int64())
    at = table.column_names.index(column)
    changed = table.set_column(at, column, values)
    with pq.ParquetWriter(
        path, changed.schema, compression="zstd", write_statistics=False, store_schema=False
    ) as writer:
        writer.write_table(changed)


TAMPERED = {
    "one more in a state": ("pop_state", lambda x: x + (np.arange(len(x)) == 0)),
    "one moved between states": ("pop_state", lambda x: x + np.array([1, -1, 0])),
    "below 0": ("pop_state", lambda x: x * np.array([1, 1, 0]) + np.array([0, 0, -1])),
    "beyond any people": ("pop_total", lambda x: x + 2**61),
}


@pytest.mark.share(0.4)
@pytest.mark.parametrize("what", TAMPERED)
def test_tampered_invariants_are_found(what: str, tmp_path: Path) -> None:
    """The step takes any integers: it raises nothing, and the release is refused by its digests."""
    folder = publish_family(tmp_path, **case_of("states"))
    name, change = TAMPERED[what]
    rewrite_column(folder / f"measurements/{name}.parquet", "n", change)
    report = dprelease.verify(folder)
    assert not report.ok


@pytest.mark.share(0.4)
@pytest.mark.parametrize("what", TAMPERED)
def test_contradicting_exact_numbers_raise_no_error(what: str, tmp_path: Path) -> None:
    """All outputs are complete for any measurements, but state no errors."""
    from dprelease.tables.family_tables import published_table

    folder = publish_family(tmp_path, **case_of("nested"))
    declaration = read_family(tmp_path / "again", **case_of("nested"))
    _, plan = prepare(declaration)
    (family,) = plan.families
    name, change = TAMPERED[what]
    path = folder / f"measurements/{name}.parquet"
    rewrite_column(path, "n", change)
    noised = [published_table(table, folder) for table in family.tables]
    assert family.step is not None
    batches = list(family.step.values(noised))
    assert {output for output, _ in batches} == {output.name for output in family.outputs}
    errors = [b.values["n_se"] for output, b in batches if output.startswith("estimates/")]
    assert all(np.isnan(error).all() for error in errors)


def test_numbers_beyond_64_bits_are_clamped_consistently(tmp_path: Path) -> None:
    """Noise may have any size; exact tables stay exact."""
    given = case_of("nested", budget="epsilon: 1e-9, delta: 1e-6, neighbours: replace")
    given["mechanism"] = "laplace"
    folder = publish_family(tmp_path, **given)
    assert dprelease.verify(folder).ok
    for name in invariant_tables(folder):
        assert as_counts(read_tables(folder, "tables")[name], "n") == as_counts(
            read_tables(folder, "measurements")[name], "n"
        )


def test_invariants_do_not_increase_errors(tmp_path: Path) -> None:
    """Errors are smaller where the invariant has information."""

    def errors(folder: Path) -> dict[str, float]:
        return {
            name: max(table["n_se"].to_pylist())
            for name, table in read_tables(folder, "estimates").items()
        }

    with_them = errors(publish_family(tmp_path / "with", **case_of("states")))
    without = errors(publish_family(tmp_path / "without", budget=REPLACE, consistent="true"))
    assert all(with_them[name] <= without[name] * 1.0001 for name in without)
    assert with_them["pop_sex"] < without["pop_sex"]


def test_twin_runs_publish_the_same_invariants(tmp_path: Path) -> None:
    """The data differ only in attributes."""
    one = publish_family(tmp_path / "one", **case_of("states"))
    path = tmp_path / "two"
    declaration = read_family(path, **case_of("states"))
    lines = (path / "people.csv").read_text().splitlines()
    swapped = [
        line.replace(",f,", ",x,").replace(",m,", ",f,").replace(",x,", ",m,") for line in lines
    ]
    (path / "people.csv").write_text("\n".join(swapped) + "\n")
    two = run(declaration, bits=Keyed("family"))
    for name in invariant_tables(one):
        pair = [(folder / f"measurements/{name}.parquet").read_bytes() for folder in (one, two)]
        assert all(a == b for a, b in pairwise(pair))
