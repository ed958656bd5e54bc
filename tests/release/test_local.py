"""Local releases: each record gets noise alone; from the file to estimates, and what verify finds."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.documents.encoding import NAME, canonical, sha256
from dprelease.errors import DpReleaseError
from dprelease.exact.duckdb import Engine
from dprelease.exact.results.true_records import ExactRecords
from dprelease.ledger.ledger import Ledger
from dprelease.mechanisms.discrete_laplace import DiscreteLaplace
from dprelease.mechanisms.randomized_response import RandomizedResponse
from dprelease.mechanisms.symmetric_alpha_stable import SymmetricAlphaStable
from dprelease.noise.noised_vectors import perturb_records
from dprelease.numerics import stable
from dprelease.numerics.lattice import sample
from dprelease.planning.local_plan import prepare_local
from dprelease.postprocess.record_estimates import FrequencyNoise, MeanNoise
from dprelease.query.local_records import resolve_records
from dprelease.release.accounts import account_of, read_ledger
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.verification.verify import Report, verify
from tests.manifest_files import with_digest
from tests.replay import Keyed
from tests.rewriting import rewrite

ERROR_RATE = 1e-9
ACS = Path(__file__).parents[2] / "examples" / "nist_acs" / "data" / "national2019.csv"
CANARY = "CANARY-2718"

SCHEMA = """\
table: people
owner: office
source: people.csv
columns:
  name: {type: text}
  city: {type: category, values: [Bern, Oslo, Rome], fill: Bern, others: Rome}
  member: {type: boolean, fill: false}
  born: {type: date, lower: 2000-01-01, upper: 2000-01-10, fill: 2000-01-01}
  age: {type: integer, lower: 0, upper: 115, fill: 0}
  group: {cut: age, edges: [0, 18, 65], fill: 0-17, others: 18-64}
  pay: {type: number, lower: 0, upper: 5000, step: 0.5, fill: 0}
"""
RELEASE = """\
title: People one by one
tables: [people.yaml]
mode: local
budget: {epsilon: 6, neighbours: replace}
records:
  people:
    from: people
    columns:
      city: {weight: 2}
      member: {}
      born: {}
      group: {epsilon: 0.5}
      age: {mechanism: randomized_response}
      pay: {mechanism: {name: symmetric_alpha_stable, alpha: 1.7}}
output: out/local
"""
HEADER = "name,city,member,born,age,pay\n"
ROWS = [
    f"{CANARY}-{i},{('Bern', 'Oslo', '', 'Paris')[i % 4]},{('true', 'false', '?')[i % 3]},"
    f"2000-01-{1 + i % 12:02d},{(i * 7) % 130},{i * 13 % 6000}.25\n"
    for i in range(400)
]


def write(folder: Path, rows: list[str] | None = None, release: str = RELEASE) -> Path:
    (folder / "people.csv").write_text(HEADER + "".join(ROWS if rows is None else rows))
    (folder / "people.yaml").write_text(SCHEMA)
    (folder / "release.yaml").write_text(release)
    return folder / "release.yaml"


def publish(folder: Path, rows: list[str] | None = None, key: str = "noise") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return run(read_declaration(write(folder, rows)), bits=Keyed(key))


@pytest.fixture(scope="module")
def published_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(tmp_path_factory.mktemp("local"))


@pytest.fixture
def copy(published_release: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(published_release, tmp_path / "copy"))


def finding_codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


def test_local_release_verifies_and_states_its_guarantee(published_release: Path) -> None:
    report = verify(published_release)
    assert report.ok, [str(finding) for finding in report.findings]
    assert report.guarantee is not None
    assert 5.994 <= report.guarantee.epsilon <= 6.0
    assert report.opinion is not None
    assert 5.9 < report.opinion.at_least <= report.opinion.claimed
    held = json.loads((published_release / NAME).read_text())
    assert held["guarantee"]["neighbours"] == "replace"
    assert "number of records of the source is published" in held["model"]["number_of_records"]
    assert "random order" in held["model"]["order"]
    table = pq.read_table(published_release / "people.parquet")
    assert table.column_names == ["city", "member", "born", "group", "age", "pay"]
    assert table.num_rows == len(ROWS) == held["files"][0]["rows"]
    prices = {m["column"]: m for m in held["measurements"]}
    assert prices["group"]["one_record"]["values"] == 2
    assert prices["age"]["one_record"]["values"] == 116
    # The privacy cost of each column: weight 2, 1, 1, an absolute half, 1, 1 of six.
    laws = {name: Fraction(1) / Fraction(m["parameters"]["scale"]) for name, m in prices.items()}
    assert float(laws["group"]) == pytest.approx(0.5, rel=1e-2)
    assert float(laws["city"]) == pytest.approx(2 * 5.5 / 6, rel=1e-2)
    for file in published_release.iterdir():
        assert CANARY.encode() not in file.read_bytes()


def true_records(folder: Path) -> dict[str, np.ndarray]:
    declaration = read_declaration(folder / "release.yaml")
    (part,) = resolve_records(declaration)
    with Engine.open(part.declared) as engine:
        exact = engine.records(part)
    assert "people: 400 records, 6 columns" in repr(exact)
    with pytest.raises(TypeError):
        exact.__reduce__()
    return {column.name: exact.vector(column.name) for column in part.columns}


def test_records_before_noise_follow_the_declaration(tmp_path: Path) -> None:
    """Missing, undeclared and out-of-range values are replaced or clamped row by row."""
    write(tmp_path)
    found = true_records(tmp_path)
    i = np.arange(400)
    assert (found["city"] == np.array([0, 1, 0, 2])[i % 4]).all()
    assert (found["member"] == (i % 3 == 0)).all()
    days = i % 12
    assert (found["born"] == np.where(days < 10, days, 0)).all()
    age = (i * 7) % 130
    assert (found["age"] == np.minimum(age, 115)).all()
    assert (found["group"] == np.where(age < 18, 0, 1)).all()
    pay = np.minimum(i * 13 % 6000 + 0.25, 5000)
    assert (found["pay"] == np.floor(pay * 2 + 0.5)).all()


def test_records_are_read_in_order_of_the_source(tmp_path: Path) -> None:
    """Several files, row groups and threads, and frames: so replayed bits give the same records."""
    write(tmp_path)
    ages = np.arange(700_000) * 31 % 116
    cities = np.array(["Rome", "Bern", "Oslo"])[np.arange(len(ages)) % 3]
    for part in range(2):
        half = slice(part * 350_000, (part + 1) * 350_000)
        held = pa.table(
            {
                "name": cities[half], "city": cities[half], "member": [True] * 350_000,
                "born": ["2000-01-01"] * 350_000, "age": ages[half], "pay": ages[half] * 0.5,
            }
        )  # fmt: skip
        pq.write_table(held, tmp_path / f"part{part}.parquet", row_group_size=20_000)
    text = SCHEMA.replace("people.csv", "part*.parquet")
    (tmp_path / "people.yaml").write_text(text)
    (part,) = resolve_records(read_declaration(tmp_path / "release.yaml"))
    frame = pq.read_table(tmp_path / "part0.parquet")
    for given, count in ((None, 700_000), (frame, 350_000), (frame.to_pandas(), 350_000)):
        with Engine.open(part.declared, given) as engine:
            exact = engine.records(part)
        assert (exact.vector("age") == ages[:count]).all()
        assert (exact.vector("pay") == ages[:count]).all()
        assert (exact.vector("city") == np.array([2, 0, 1])[np.arange(count) % 3]).all()


def test_auto_mechanism_of_numbers(tmp_path: Path) -> None:
    """Under a pure and an approximate budget."""
    for budget in ("epsilon: 6,", "epsilon: 6, delta: 1e-6,"):
        text = RELEASE.replace("epsilon: 6,", budget)
        text = text.replace(
            "pay: {mechanism: {name: symmetric_alpha_stable, alpha: 1.7}}", "pay: {}"
        )
        out = run(
            read_declaration(write(tmp_path, release=text)),
            bits=Keyed("a"),
            output=tmp_path / budget[-3:-1],
        )
        report = verify(out)
        assert report.ok, [str(finding) for finding in report.findings]
        held = json.loads((out / NAME).read_text())
        assert "auto" in column(held, "pay")["chosen_by"]


def test_changed_record_changes_one_row_only(tmp_path: Path) -> None:
    """Twin runs: with the same bits, one record that turns into another changes one row alone."""
    one = pq.read_table(publish(tmp_path / "one") / "people.parquet").to_pylist()
    rows = list(ROWS)
    rows[123] = f"{CANARY},,x,1850-01-01,,nan\n"
    two = pq.read_table(publish(tmp_path / "two", rows) / "people.parquet").to_pylist()
    differ = [i for i, (a, b) in enumerate(zip(one, two, strict=True)) if a != b]
    assert len(differ) == 1


def test_values_out_of_bounds_are_clamped_before_noise(tmp_path: Path) -> None:
    """A fault of the engine can't move a record farther than its privacy cost covers."""
    plan = prepare_local(read_declaration(write(tmp_path)))
    columns = plan.of_records("people")
    ends = {
        end: {c.column.name: np.full(3, getattr(c.column, end)) for c in columns}
        for end in ("low", "high")
    }
    far = {name: values + 10**9 for name, values in ends["high"].items()}
    honest, beyond = (
        perturb_records(ExactRecords("people", 3, vectors), columns, Keyed("k"))
        for vectors in (ends["high"], far)
    )
    assert all((honest[name] == beyond[name]).all() for name in honest)


def test_local_release_without_records(tmp_path: Path) -> None:
    out = publish(tmp_path, [])
    assert verify(out).ok
    with pytest.raises(DpReleaseError, match=r"DP-LOCAL-008.*no record"):
        dprelease.local_estimate(out, "city")


def forge(folder: Path, change: Callable[[dict[str, Any]], None]) -> set[str]:
    path = folder / NAME
    record = json.loads(path.read_text())
    change(record)
    path.write_bytes(canonical(with_digest(record)))
    return finding_codes(verify(folder))


def column(record: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [m for m in record["measurements"] if m["column"] == name]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda r: column(r, "city")["one_record"].update(keep=0.99), "DP-VERIFY-007"),
        (lambda r: column(r, "city")["parameters"].update(values="4.0"), "DP-VERIFY-007"),
        (lambda r: column(r, "pay").update(mechanism="discrete_laplace"), "DP-VERIFY-007"),
        (lambda r: column(r, "pay")["all_records"].update(mean_scale=0.1), "DP-VERIFY-007"),
        (
            lambda r: column(r, "pay")["sensitivity"].update(moves=[{"shift": 1, "cells": 1}]),
            "DP-VERIFY-007",
        ),
        (lambda r: r["measurements"].pop(), "DP-VERIFY-007"),
        (lambda r: r["measurements"].append(r["measurements"][0]), "DP-VERIFY-002"),
        (lambda r: r["guarantee"].update(epsilon="0.5"), "DP-VERIFY-008"),
        (lambda r: r["privacy_parameters"].update(epsilon="0.5"), "DP-VERIFY-008"),
        (lambda r: r["reading"].update(least_total_error=1.0), "DP-VERIFY-002"),
        (lambda r: r["model"].update(order="The order is that of the source."), "DP-VERIFY-002"),
        (lambda r: r["unprotected_quantities"].clear(), "DP-VERIFY-002"),
        (lambda r: r["treatments"].clear(), "DP-VERIFY-002"),
        (lambda r: r["files"][0].update(rows=401), "DP-VERIFY-006"),
        (lambda r: r["files"].clear(), "DP-VERIFY-006"),
        (lambda r: r.update(format="dprelease-manifest/1"), "DP-VERIFY-002"),
        (lambda r: r["declaration"]["texts"].update({"people.yaml": "x"}), "DP-VERIFY-002"),
    ],
)
def test_forged_local_manifests_are_found(
    copy: Path, change: Callable[[dict[str, Any]], None], code: str
) -> None:
    assert code in forge(copy, change)


def test_column_above_the_budget_is_found(copy: Path) -> None:
    """The rest of the manifest is changed to agree."""

    def change(record: dict[str, Any]) -> None:
        held = column(record, "member")
        law = RandomizedResponse(0.5, 2)
        held["parameters"] = dict(law.parameters)
        held["one_record"] = {
            "values": 2,
            "keep": law.true_value_probability,
            "other": law.false_value_probability,
        }
        held["all_records"] = FrequencyNoise(law, 400).to_json()

    assert forge(copy, change) == {"DP-VERIFY-008"}


def test_changed_files_are_found(copy: Path) -> None:
    path = copy / "people.parquet"
    raw = path.read_bytes()
    path.write_bytes(raw[:-9] + bytes([raw[-9] ^ 1]) + raw[-8:])
    assert "DP-VERIFY-004" in finding_codes(verify(copy))
    with pytest.raises(DpReleaseError, match="DP-VERIFY-004"):
        dprelease.local_estimate(copy, "city")
    path.write_bytes(raw)
    table = pq.read_table(path)
    cities = ["Atlantis", *table.column("city").to_pylist()[1:]]
    ages = [200, *table.column("age").to_pylist()[1:]]
    for name, values in (("city", pa.array(cities)), ("age", pa.array(ages))):
        other = table.set_column(table.column_names.index(name), name, values)
        path.write_bytes(raw)
        rewrite(path, lambda _table, other=other: other)
        digest = sha256(path.read_bytes())
        assert forge(copy, lambda r, d=digest: r["files"][0].update(sha256=d)) == {"DP-VERIFY-006"}
    (copy / NAME).unlink()
    with pytest.raises(DpReleaseError, match="DP-VERIFY-001"):
        dprelease.local_estimate(copy, "city")


def test_command_line(tmp_path: Path) -> None:
    release = str(write(tmp_path))
    call = CliRunner().invoke
    assert call(cli.app, ["check", release]).exit_code == 0
    told = call(cli.app, ["plan", release])
    assert told.exit_code == 0
    assert "for each single record" in told.stdout
    plan = json.loads(call(cli.app, ["plan", release, "--json"]).stdout)
    assert plan["mode"] == "local"
    assert len(plan["columns"]) == 6
    assert "FROM dp_source" in call(cli.app, ["run", release, "--dry-run"]).stdout
    refused = call(cli.app, ["plan", release, "--plot", str(tmp_path / "x.svg")])
    assert (refused.exit_code, "DP-LOCAL-007" in refused.stderr) == (2, True)
    assert call(cli.app, ["run", release]).exit_code == 0
    assert call(cli.app, ["run", release]).exit_code == 5  # it is published
    assert call(cli.app, ["run", release, "--overwrite"]).exit_code == 0
    out = str(tmp_path / "out/local")
    done = call(cli.app, ["verify", out])
    assert (done.exit_code, "privacy cost of one record is" in done.stdout) == (0, True)
    told = call(cli.app, ["estimate", out, "city"]).stdout
    assert [line.split()[0] for line in told.splitlines()] == ["value", "Bern", "Oslo", "Rome"]
    assert "mean" in call(cli.app, ["estimate", out, "pay"]).stdout
    (mean,) = json.loads(call(cli.app, ["estimate", out, "pay", "--json"]).stdout)
    assert mean["standard_error"] is None
    refused = call(cli.app, ["estimate", out, "name"])
    assert (refused.exit_code, "people.pay" in refused.stderr) == (2, True)


def test_ledger_is_charged_for_single_records(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    account = account_of("office/people", None, "replace", "7", "0", None)
    Ledger(path).open_account(account)
    release = write(tmp_path, release=RELEASE + "ledger: ledger.sqlite\n")
    out = run(read_declaration(release), bits=Keyed("ledger"))
    assert verify(out, ledger=path).ok
    assert 5.99 <= read_ledger(path).balances[0].spent <= 6.0


@pytest.mark.parametrize(
    "budget",
    ["{epsilon: 6, delta: 1e-6, ", pytest.param("{rho: 2, delta: 1e-6, ", marks=pytest.mark.audit)],
)
def test_local_release_with_other_budgets(budget: str, tmp_path: Path) -> None:
    """(epsilon, delta) and rho are priced by the same accountant, over the columns of a record."""
    text = RELEASE.replace("{epsilon: 6, ", budget).replace("group: {epsilon: 0.5}", "group: {}")
    out = run(read_declaration(write(tmp_path, release=text)), bits=Keyed("x"))
    report = verify(out)
    assert report.ok, [str(finding) for finding in report.findings]


def publish_acs(tmp_path: Path) -> Path:
    (tmp_path / "persons.yaml").write_text(
        f"table: persons\nsource: {{path: {ACS}, nulls: [N]}}\ncolumns:\n"
        "  SEX: {type: category, values: ['1', '2'], fill: '1', others: '1'}\n"
        "  AGEP: {type: integer, lower: 0, upper: 99, fill: 0}\n"
        "  age_group: {cut: AGEP, edges: [0, 18, 45, 65, 100], fill: 0-17, others: 0-17}\n"
        "  PINCP: {type: number, lower: 0, upper: 150000, step: 1, fill: 0}\n"
    )
    (tmp_path / "release.yaml").write_text(
        "title: Persons\ntables: [persons.yaml]\nmode: local\n"
        "budget: {epsilon: 4, neighbours: replace}\n"
        "records:\n  persons:\n    from: persons\n    columns:\n      SEX: {}\n      age_group: {}\n"
        "      AGEP: {mechanism: {name: symmetric_alpha_stable, alpha: 1.9}}\n"
        "      PINCP: {mechanism: discrete_laplace}\noutput: out/persons\n"
    )
    return run(read_declaration(tmp_path / "release.yaml"), bits=Keyed("acs"))


def test_estimates_of_real_records(tmp_path: Path) -> None:
    """27,253 persons: every true mean and frequency lies within its margin at 1 - 1e-9."""
    out = publish_acs(tmp_path)
    assert verify(out).ok
    import pandas as pd

    raw = pd.read_csv(ACS, na_values=["N"])
    income = raw["PINCP"].clip(0, 150000).fillna(0).mean()
    true = {"PINCP": income, "AGEP": raw["AGEP"].clip(0, 99).mean()}
    for name, mean in true.items():
        (found,) = dprelease.local_estimate(out, name, confidence=1 - ERROR_RATE)
        assert abs(found.estimate - mean) <= found.margin
        assert found.to_json()["value"] is None
        (usual,) = dprelease.local_estimate(out, name)
        assert usual.estimate == found.estimate
        assert usual.margin < found.margin
    cuts = pd.cut(raw["AGEP"], [0, 18, 45, 65, 100], right=False, labels=False)
    shares = cuts.value_counts(normalize=True, sort=False).sort_index().tolist()
    groups = dprelease.local_estimate(out, "age_group", confidence=1 - ERROR_RATE)
    assert [row.value for row in groups] == ["0-17", "18-44", "45-64", "65-99"]
    for row, share in zip(groups, shares, strict=True):
        assert abs(row.estimate - share) <= row.margin
        assert row.margin < 0.2
    assert sum(row.estimate for row in groups) == pytest.approx(1.0)
    # A planted mistake: read as if values had been kept more often, the estimates are off.
    answers = pq.read_table(out / "persons.parquet").column("age_group").to_pylist()
    law = FrequencyNoise(RandomizedResponse(0.5, 4), len(answers))
    wrong = [law.estimate(answers.count(row.value)) for row in groups]
    assert max(abs(w - s) for w, s in zip(wrong, shares, strict=True)) > groups[0].margin
    with pytest.raises(DpReleaseError, match=r"DP-LOCAL-008.*no column"):
        dprelease.local_estimate(out, "PUMA")
    with pytest.raises(DpReleaseError, match=r"DP-LOCAL-008.*confidence"):
        dprelease.local_estimate(out, "SEX", confidence=1.0)


@pytest.mark.parametrize("values", [2, 5])
def test_frequencies_are_unbiased_and_margins_hold(values: int) -> None:
    """4,000 releases of 500 records: the mean estimate, and how often a margin of 95 % fails."""
    law, n, times = RandomizedResponse(1.0, values), 500, 4000
    true = (np.arange(n) % 10 == 0).astype(np.int64)  # a tenth has value 1, the others value 0
    answers = law.respond(np.tile(true, times), Keyed(f"unbiased {values}")).reshape(times, n)
    noise = FrequencyNoise(law, n)
    found = np.array([noise.estimate(count) for count in (answers == 1).sum(axis=1)])
    error = noise.standard_error(0.1)
    z = (found.mean() - 0.1) * np.sqrt(times) / error
    assert abs(z) < stats.norm.isf(ERROR_RATE / 2)
    assert abs(z + np.sqrt(times) * 0.02 / error) > stats.norm.isf(ERROR_RATE / 2)
    assert found.std() == pytest.approx(error, rel=0.1)
    missed = sum(abs(x - 0.1) > noise.margin(x, 0.95) for x in found)
    assert stats.binom.sf(missed - 1, times, 0.06) > ERROR_RATE  # no more than about 5 %


@pytest.mark.parametrize("alpha", [1.0, 1.5, 1.9])
def test_sums_of_stable_noise_follow_the_closed_form(alpha: float) -> None:
    """Means of 16 rounded draws against scale 40 * 16^(1/alpha - 1); 16^(-1/2) is refuted."""
    law, n, times = SymmetricAlphaStable(40.0, alpha), 16, 20_000
    means = sample(law, n * times, Keyed(f"sum {alpha}")).reshape(times, n).mean(axis=1)
    scale = MeanNoise.of(law, Fraction(1), n).scale
    assert scale == pytest.approx(40.0 * 16 ** (1 / alpha - 1))

    def p_value(scale: float) -> float:
        u = np.linspace(0.02, 0.48, 24)
        cuts = scale * stable.quantile(alpha, u)[::-1]
        edges = np.concatenate((-cuts[::-1], cuts))
        below = np.concatenate((u, 1 - u[::-1]))
        masses = np.diff(np.concatenate(([0.0], below, [1.0])))
        counts = np.bincount(np.searchsorted(edges, means), minlength=len(masses))
        return float(stats.chisquare(counts, masses * times).pvalue)

    assert p_value(scale) > ERROR_RATE
    assert p_value(scale * 1.1) < ERROR_RATE
    if alpha < 1.9:
        assert p_value(40.0 / 4) < ERROR_RATE
    missed = int((np.abs(means) > MeanNoise.of(law, Fraction(1), n).margin(0.9)).sum())
    assert stats.binom.sf(missed - 1, times, 0.1) > ERROR_RATE  # never more than one in ten


@pytest.mark.parametrize("n", [4, 400])
def test_margins_of_means_hold(n: int) -> None:
    law, times = DiscreteLaplace(30.0), 20_000
    means = sample(law, n * times, Keyed(f"mean {n}")).reshape(times, n).mean(axis=1)
    missed = int((np.abs(means) > MeanNoise.of(law, Fraction(1), n).margin(0.9)).sum())
    assert stats.binom.sf(missed - 1, times, 0.105) > ERROR_RATE
