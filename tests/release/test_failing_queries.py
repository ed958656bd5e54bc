"""If one query fails, nothing is published and the release is charged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dprelease.errors import State
from dprelease.exact import shared_scan
from dprelease.exact.bounding.shared_rows import HeldRows
from dprelease.exact.duckdb import Engine
from dprelease.ledger.account import Account
from dprelease.ledger.ledger import Ledger
from dprelease.noise import noised_answers
from dprelease.query.resolve import Query, resolve
from dprelease.query.scan_planning import groups_bounded_together, plan_scans
from dprelease.release.runs import family_run
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from tests.replay import Keyed

TABLES = {
    "people": "columns:\n  sex: {type: category, values: [F, M]}\n"
    "  age: {type: integer, lower: 0, upper: 99}\n  town: {type: integer, lower: 0, upper: 399}\n",
    "visits": "privacy_unit: {id: id, max_groups: 2, max_rows_per_group: 2}\ncolumns:\n"
    "  id: {type: integer}\n  store: {type: category, values: [a, b]}\n"
    "  spent: {type: integer, lower: 0, upper: 9}\n",
}
QUERIES = {
    "one_of_a_scan": "from: people, group_by: [sex], columns: {n: {count: '*'}}",
    "two_of_a_scan": "from: people, group_by: [sex, age], columns: {n: {count: '*'}}",
    "a_median_of_it": "from: people, group_by: [sex], columns: {n: {median: age}}",
    "a_scan_of_its_own": "from: people, group_by: [sex], columns: {n: {count_distinct: age}}",
    "many_cells": "from: people, group_by: [town, sex, age], columns: {n: {count: '*'}}",
    "one_of_ids": "from: visits, group_by: [store], columns: {n: {count: '*'}}",
    "two_of_ids": "from: visits, columns: {n: {sum: spent}}",
}


def write_release(folder: Path) -> tuple[Path, Ledger]:
    """Return a release of all queries and the ledger that pays for it."""
    with duckdb.connect() as link:
        for table, columns in TABLES.items():
            rows = "range % 7 AS id, chr(97 + (range % 2)::INTEGER) AS store, range % 10 AS spent"
            rows += ", CASE WHEN range % 3 > 0 THEN 'F' ELSE 'M' END AS sex, range % 99 AS age"
            source = f"SELECT {rows}, range % 399 AS town FROM range(5000)"
            link.execute(f"COPY ({source}) TO '{folder / table}.parquet' (FORMAT parquet)")
            text = f"table: {table}\nowner: office\nsource: {table}.parquet\n{columns}"
            (folder / f"{table}.yaml").write_text(text)
    queries = "".join(f"  {name}: {{{query}}}\n" for name, query in QUERIES.items())
    (folder / "release.yaml").write_text(
        "title: Failing\ntables: [people.yaml, visits.yaml]\nbudget: {epsilon: 1}\n"
        f"ledger: ledger.sqlite\nqueries:\n{queries}output: out\n"
    )
    ledger = Ledger(folder / "ledger.sqlite")
    for table, unit in (("people", "each row"), ("visits", "id")):
        ledger.open_account(
            Account(f"office/{table}", "add_remove", unit, Fraction(10), Fraction(0), None)
        )
    return folder / "release.yaml", ledger


Fault = Callable[[pytest.MonkeyPatch, str, BaseException], None]


def fail_while_reading(patch: pytest.MonkeyPatch, name: str, failure: BaseException) -> None:
    """The engine fails while it reads for the query."""
    whole = Engine.run

    def fails(self: Engine, query: Query) -> Any:
        if query.name != name:
            return whole(self, query)
        return self._attempt("DP-DATA-006", State.READ, lambda _link: raise_failure(failure))

    patch.setattr(Engine, "run", fails)


def fail_in_shared_scan(patch: pytest.MonkeyPatch, name: str, failure: BaseException) -> None:
    """The shared scan of several queries fails with its last batch."""

    def fails(stream: Iterator[Any], *_: object) -> None:
        for _batch in stream:
            pass
        raise_failure(failure)

    patch.setattr(shared_scan, "fill_joint_tables", fails)
    patch.setattr(HeldRows, "read", lambda *_: raise_failure(failure))


def fail_in_noise(patch: pytest.MonkeyPatch, name: str, failure: BaseException) -> None:
    """The noise fails after the true numbers were computed."""
    whole = noised_answers.perturb_in_batches

    def fails(exact: Any, *given: Any) -> Any:
        return raise_failure(failure) if exact.name == name else whole(exact, *given)

    patch.setattr(noised_answers, "perturb_in_batches", fails)


def fail_while_writing(patch: pytest.MonkeyPatch, name: str, failure: BaseException) -> None:
    """The table can't be written."""
    whole = family_run._OpenTable.write

    def fails(table: Any, piece: Any) -> None:
        return raise_failure(failure) if table.path.stem == name else whole(table, piece)

    patch.setattr(family_run._OpenTable, "write", fails)


def raise_failure(failure: BaseException) -> Any:
    raise failure


FAILURES: list[BaseException] = [
    duckdb.Error("a word of the engine"),
    MemoryError(),
    OSError(28, "No space left on device"),
    KeyboardInterrupt(),
]
GROUPS: dict[Fault, list[str]] = {
    fail_while_reading: list(QUERIES),
    fail_in_shared_scan: ["one_of_a_scan", "one_of_ids"],
    fail_in_noise: list(QUERIES),
    fail_while_writing: list(QUERIES),
}
CASES = [
    pytest.param(fault, name, FAILURES[i % len(FAILURES)], id=f"{fault.__name__}-{name}")
    for fault, names in GROUPS.items()
    for i, name in enumerate(names)
]


def test_queries_cover_all_ways_of_reading(tmp_path: Path) -> None:
    """The cases below need a shared scan, a query read alone, and queries bounded together."""
    queries = resolve(read_declaration(write_release(tmp_path)[0]))
    rows = [query for query in queries if query.table.name == "people"]
    (scan,), reasons = plan_scans(rows)
    assert {part.query.name for part in scan.parts} == {
        "one_of_a_scan", "two_of_a_scan", "a_median_of_it", "many_cells",
    }  # fmt: skip
    assert list(reasons) == ["a_scan_of_its_own"]
    ids = [query for query in queries if query.unit.id is not None]
    assert [len(together.queries) for together in groups_bounded_together(ids)] == [2]


@pytest.mark.share(0.2)
@pytest.mark.parametrize(("fault", "name", "failure"), CASES)
def test_failing_query_publishes_nothing_and_is_charged(
    fault: Fault, name: str, failure: BaseException, tmp_path: Path
) -> None:
    path, ledger = write_release(tmp_path)
    before = {file.name for file in tmp_path.iterdir()}
    with pytest.MonkeyPatch.context() as patch:
        fault(patch, name, failure)
        with pytest.raises(BaseException) as caught:  # noqa: PT011
            run(read_declaration(path), bits=Keyed("failing"))
    told = str(caught.value) + " ".join(getattr(caught.value, "__notes__", ()))
    assert State.CHARGED.value in told
    assert "a word of the engine" not in told or fault in (fail_in_noise, fail_while_writing)
    assert {file.name for file in tmp_path.iterdir()} - before <= {"ledger.sqlite"}
    for table in TABLES:
        assert ledger.state().spent(f"office/{table}") > 0
    spent = ledger.state().spent("office/people")
    run(read_declaration(path), bits=Keyed("failing"))
    assert ledger.state().spent("office/people") == 2 * spent
