"""Whole attacks on rehearsals: on public rows, on invented people, and on what is neither."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

import dprelease
from dprelease.cli import app
from dprelease.documents.attack_outcome import FORMS, AttackOutcome, FormOutcome
from dprelease.documents.encoding import canonical, sha256
from dprelease.documents.json_schemas import render_schema
from dprelease.errors import DeclarationError, DpReleaseError, VerificationError
from dprelease.numerics.lattice import Integers
from dprelease.reconstruction.attack import AttackRequest, attack
from dprelease.reconstruction.counted_tables import counted_tables
from dprelease.reconstruction.record_combinations import combinations_of
from dprelease.reconstruction.swapping import UnmovedRecords, swap_areas
from dprelease.reconstruction.true_counts import open_rehearsal, true_counts
from dprelease.rehearsal.column_values import Draws
from dprelease.rehearsal.rehearse import write_rehearsal
from dprelease.schema.load import read_declaration
from tests.manifest_files import with_digest
from tests.reconstruction import worlds
from tests.rehearsal.build import EXACT, write
from tests.replay import Keyed

ALONE = ["u,f,true,3", "u,m,false,40", "v,f,false,40", "v,m,true,70", "v,m,true,71", "u,f,true,5"]
"""No two tables of pairs that these have can be of other people."""

EVERY = "[[town, sex], [town, work], [sex, work], [town, sex, work]]"


def of(found: AttackOutcome, form: str) -> FormOutcome:
    return next(one for one in found.forms if one.form == form)


def attacked(folder: Path, rows: list[str], marginals: str, epsilon: float = 1) -> AttackOutcome:
    made, public = worlds.rehearsed(folder, rows, marginals, epsilon)
    return attack(made, AttackRequest(seconds=100), on=public, bits=Keyed("attack"))


def test_exact_tables_are_reconstructed(tmp_path: Path) -> None:
    found = attacked(tmp_path, ALONE, EVERY)
    exact = of(found, "exact")
    assert (exact.right, exact.certain, exact.only, exact.blocks) == (6, 6, 1, 1)
    assert (exact.alone_right, found.alone) == (2, 2)
    assert exact.error == 0
    assert [one.form for one in found.forms] == list(FORMS)
    # What is suppressed below 10 is everything here, and rounding leaves nothing above 2.
    assert of(found, "suppressed").withheld > 0.5
    assert of(found, "suppressed").certain <= of(found, "suppressed").certain_right
    for one in found.forms:
        assert one.right == sum(size.right for size in one.classes)
        assert one.right <= min(one.records, found.records)
        if one.form not in ("swapped", "noised"):
            assert one.certain == one.certain_right
    assert of(found, "noised").certain == 0


CROWD = [
    f"{town},{sex},{work},30"
    for i, (town, sex, work) in enumerate(
        (t, s, w) for t in "uv" for s in "fm" for w in ("true", "false")
    )
    for _ in range((23, 4, 17, 9, 1, 31, 12, 6)[i])
]


def test_noisy_tables_are_between_exact_and_guessing(tmp_path: Path) -> None:
    """With hardly any noise all is right that is with none; with much, not more than is guessed."""
    asked = AttackRequest(seconds=100, forms=["exact", "noised"])
    right = {}
    for epsilon in (100.0, 0.01):
        folder = tmp_path / f"at-{epsilon}"
        folder.mkdir()
        made, public = worlds.rehearsed(folder, CROWD, worlds.PAIRS, epsilon)
        found = attack(made, asked, on=public, bits=Keyed("attack"))
        right[epsilon] = of(found, "noised")
        guess = found.baseline
        if epsilon == 100.0:
            assert right[epsilon].right == of(found, "exact").right > guess.apportioned
    assert right[0.01].right <= max(guess.drawn, guess.apportioned)
    assert right[0.01].beyond <= 0


def test_overlapping_bands_reveal_differences(tmp_path: Path) -> None:
    """Nobody counts those of 65 and 66; the difference of two tables does, and noise hides it."""
    path = worlds.write(tmp_path, "[[town]]", 1)
    text = path.read_text()
    for name, edges in (("old", "[0, 65, 100]"), ("older", "[0, 67, 100]")):
        more = f"""  {name}:
    from: people
    group_by: [town]
    histogram: {{column: age, edges: {edges}}}
    columns: {{n: {{count: "*"}}}}
"""
        text = text.replace("output:", f"{more}output:")
    path.write_text(text)
    public = tmp_path / "public.csv"
    ages = [3, 20, 65, 80, 90, 30, 40, 41, 70]
    rows = [f"{'uv'[i > 4]},f,true,{age}" for i, age in enumerate(ages)]
    public.write_text("\n".join(["town,sex,work,age", *rows]) + "\n")
    made = dprelease.rehearse(path, on=public).folder
    found = attack(made, AttackRequest(seconds=100), on=public)
    assert {one.column: one.values for one in found.attributes} == {"town": 2, "age": 3}
    assert (of(found, "exact").certain, of(found, "exact").only) == (9, 1)
    assert of(found, "exact").certain_alone == found.alone == 2
    assert of(found, "rounded").certain < 9
    assert of(found, "noised").certain == 0


LEVELS = """\
title: Tables that agree
tables: [visits.yaml]
budget: {rho: 2, delta: 1e-9}
queries:
  agree:
    from: visits
    hierarchy: [state, city]
    marginals: [[], [sex]]
    columns: {n: {count: "*"}}
    consistent: true
output: out/agree
"""


def test_attack_on_families_with_levels(tmp_path: Path) -> None:
    """Measurements of tables that agree are attacked; people lack values, and have several rows."""
    declaration = read_declaration(write(tmp_path, LEVELS))
    made = write_rehearsal(declaration, rows={"visits": 400}, bits=Keyed("levels"))
    found = attack(
        made, AttackRequest(seconds=100, forms=["exact", "noised"]), bits=Keyed("attack")
    )
    assert found.table == "visits"
    assert found.tables[:4] == ["agree_total", "agree_sex", "agree_state", "agree_state_sex"]
    assert {one.column: one.values for one in found.attributes} == {"city": 5, "sex": 2}
    people = pq.read_table(made / "truth/people/visits.parquet").to_pandas()
    complete = people.dropna(subset=["person", "sex", "city"])
    assert found.records == len(complete)
    assert found.records + found.partial == int(people["person"].notna().sum())
    exact = of(found, "exact")
    assert exact.right == found.records  # a table of all attributes is among them
    assert exact.only == exact.blocks


KINDS = """\
title: Keys of every kind
tables: [visits.yaml, homes.yaml]
budget: {epsilon: 8}
queries:
  kinds:
    from: visits
    derive: {weekend: {expression: "day >= DATE '2024-01-06'", type: boolean, fill: true}}
    marginals: [[state, city], [state, band, age], [state, day, weekend], [state, insured], [sex]]
    columns: {n: {count: "*", round_to: 5, non_negative: true}}
  spent:
    from: visits
    group_by: [state]
    columns: {n: {sum: cost}}
  adults:
    from: visits
    where: age >= 18
    group_by: [state]
    columns: {n: {count: "*"}}
  rooms:
    from: homes
    group_by: [city]
    columns: {n: {count: "*"}}
output: out/kinds
"""


def test_attack_counts_cells_like_the_engine(tmp_path: Path) -> None:
    """Texts with stand-ins, areas, bands, whole numbers, days, truth values; missing ones in all."""
    declaration = read_declaration(write(tmp_path, KINDS))
    made = write_rehearsal(declaration, rows={"visits": 300, "homes": 50}, bits=Keyed("kinds"))
    found = counted_tables(open_rehearsal(made).families)
    assert {name: why.split()[1] for name, why in found.left_out.items()} == {
        "spent": "has", "adults": "counts", "rooms": "counts",
    }  # fmt: skip
    combinations = combinations_of(found.used)
    true = true_counts(open_rehearsal(made), found.used, combinations)
    people = pq.read_table(made / "truth/people/visits.parquet").to_pandas()
    people = people[people["person"].notna()]
    inside = people[["city", "age", "day", "sex", "insured"]].notna()
    # Who has no day is counted at the weekend, and in no day; who has no state, in a declared one.
    assert true.records.sum() == inside.all(axis=1).sum()
    assert true.partial == len(people) - true.records.sum()
    for one in found.used:  # and nobody is in a cell that their combination is not counted in
        cells = combinations.cells[one.name]
        counted = np.bincount(cells[cells >= 0], true.records[cells >= 0], one.query.keys.size)
        assert (counted <= true.cells[one.name]).all()


def test_folders_that_are_no_rehearsal_are_refused(tmp_path: Path) -> None:
    """A release, whose truth nobody may know; an empty folder; one that was changed."""
    made, public = worlds.rehearsed(tmp_path, ALONE, worlds.PAIRS, 1)
    data = tmp_path / "nowhere.csv"
    data.write_text(public.read_text())
    released = dprelease.read_release(tmp_path / "release.yaml").run()
    with pytest.raises(VerificationError) as caught:
        attack(released)
    assert caught.value.code == "DP-ATTACK-001"
    assert caught.value.place.key == "format"
    assert "dprelease rehearse" in caught.value.fix
    with pytest.raises(VerificationError) as caught:
        attack(tmp_path / "gone")
    assert caught.value.code == "DP-VERIFY-001"
    public.write_text(public.read_text() + "u,f,true,1\n")
    for on, problem in ((None, "not given"), (public, "SHA-256"), ("gone.csv", "does not exist")):
        with pytest.raises(DeclarationError) as told:
            attack(made, on=on)
        assert told.value.code == "DP-ATTACK-002"
        assert problem in told.value.cause
    (made / "people_town_sex.parquet").write_bytes(b"")
    with pytest.raises(DpReleaseError) as other:
        attack(made, on=data)
    assert other.value.code == "DP-VERIFY-004"


def test_truth_of_other_people_is_refused(tmp_path: Path) -> None:
    """Written anew with all digests, so that nothing but the people themselves tells it."""
    made, public = worlds.rehearsed(tmp_path, ALONE, worlds.PAIRS, 1)
    same = public.read_text()
    public.write_text(same.replace("v,m,true,70", "v,f,true,70"))
    record = json.loads((made / "manifest.json").read_text())
    (told,) = record["rehearsal"]["stand_ins"]
    told["sha256"] = sha256(public.read_bytes())
    del record["digest"]
    (made / "manifest.json").write_bytes(canonical(with_digest(record)))
    with pytest.raises(VerificationError) as caught:
        attack(made, on=public)
    assert caught.value.code == "DP-ATTACK-004"


@pytest.mark.parametrize(
    ("change", "asked", "code"),
    [
        ('{count: "*"}', AttackRequest(table="nobody"), "DP-ATTACK-006"),
        ("{count: age}", AttackRequest(), "DP-ATTACK-006"),
        ('{count: "*"}', AttackRequest(area="age"), "DP-ATTACK-005"),
    ],
)
def test_impossible_attacks_are_refused(
    tmp_path: Path, change: str, asked: AttackRequest, code: str
) -> None:
    path = worlds.write(tmp_path)
    path.write_text(path.read_text().replace('{count: "*"}', change))
    made = dprelease.rehearse(path, rows=50).folder
    with pytest.raises(DeclarationError) as caught:
        attack(made, asked)
    assert caught.value.code == code


def test_too_many_combinations_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, public = worlds.rehearsed(tmp_path, ALONE, worlds.PAIRS, 1)
    monkeypatch.setattr("dprelease.reconstruction.record_combinations.MOST_COMBINATIONS", 7)
    with pytest.raises(DeclarationError) as caught:
        attack(made, on=public)
    assert caught.value.code == "DP-ATTACK-003"
    assert "town 2 x sex 2 x work 2" in caught.value.cause


def test_attack_by_blocks_gives_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Divided by towns, which all tables have, what is certain is what is certain together."""
    marginals = "[[town, sex], [town, work]]"
    made, public = worlds.rehearsed(tmp_path, CROWD, marginals, 1)
    asked = AttackRequest(
        seconds=100, forms=["exact", "suppressed", "swapped"], area="town", swapped=0.2
    )
    whole = attack(made, asked, on=public, bits=Keyed("areas"))
    monkeypatch.setattr("dprelease.reconstruction.attack.MOST_TOGETHER", 0)
    parts = attack(made, asked, on=public, bits=Keyed("areas"))
    assert [one.blocks for one in parts.forms] == [2, 2, 2]
    for one, other in zip(whole.forms, parts.forms, strict=True):
        assert (one.certain, one.error, one.decided) == (other.certain, other.error, True)
    assert of(whole, "swapped").error not in (0, None)
    (tmp_path / "one").mkdir()
    made, public = worlds.rehearsed(tmp_path / "one", CROWD, "[[town]]", 1)
    with pytest.raises(DeclarationError) as caught:
        attack(made, on=public)
    assert caught.value.code == "DP-ATTACK-005"


def test_attack_command(tmp_path: Path) -> None:
    made, public = worlds.rehearsed(tmp_path, ALONE, worlds.PAIRS, 1)
    file = tmp_path / "outcome.json"
    words = ["attack", str(made), "--on", str(public), "--time-limit", "5"]
    done = CliRunner().invoke(app, [*words, "--output", str(file), "--json"])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer == json.loads(file.read_text())
    Draft202012Validator(json.loads(render_schema("attack"))).validate(answer)
    again = CliRunner().invoke(app, [*words, "--output", str(file)])
    assert (again.exit_code, "DP-OUTPUT-014" in again.stderr) == (2, True)
    shown = CliRunner().invoke(app, [*words, "--wide"], env={"COLUMNS": "200"})
    assert "6 records of 'people' with town (2), sex (2), work (2)" in shown.stdout
    assert "noised" in shown.stdout
    refused = CliRunner().invoke(app, ["attack", str(tmp_path / "out")])
    assert refused.exit_code == 4


def test_swaps_move_records_and_change_nothing_else(tmp_path: Path) -> None:
    _, combinations = worlds.tables(worlds.write(tmp_path))
    records = np.array([9, 1, 4, 3, 5, 2, 7, 1])
    moved = swap_areas(records, combinations, 0, 0.5, Draws(Keyed("swaps")))
    assert moved.sum() == records.sum()
    assert not np.array_equal(moved, records)
    for columns in ((0,), (1, 2)):  # each area has as many people, and nobody another attribute
        for value in np.unique(combinations.values[:, columns], axis=0):
            there = (combinations.values[:, columns] == value).all(axis=1)
            assert moved[there].sum() == records[there].sum()
    by_sex = [moved[(combinations.values[:, :2] == v).all(axis=1)].sum() for v in ([0, 0], [1, 1])]
    assert by_sex == [
        records[(combinations.values[:, :2] == v).all(axis=1)].sum() for v in ([0, 0], [1, 1])
    ]
    still = swap_areas(records, combinations, 0, 0.0, Draws(Keyed("swaps")))
    assert np.array_equal(still, records)


class Given(Draws):
    """Whole numbers that were chosen before, one after the other."""

    def __init__(self, *numbers: int) -> None:
        self.left = list(numbers)
        self.most: list[int] = []

    def integers(self, n: int, low: int, high: int) -> Integers:
        self.most.append(high)
        return np.array([low + min(self.left.pop(0), high) for _ in range(n)])


@pytest.mark.parametrize("seed", range(4))
def test_swap_partners_are_equally_likely(seed: int) -> None:
    """Every number that may be drawn is tried: each record that may be a partner comes up once."""
    rng = np.random.default_rng(seed)
    kept, areas = rng.integers(0, 3, 12), rng.integers(0, 3, 12)
    places = UnmovedRecords(kept, areas)
    free = np.ones(12, dtype=np.bool_)
    tried = 0
    for one in rng.permutation(12):
        elsewhere = free & (areas != areas[one])
        alike = elsewhere & (kept == kept[one])
        wanted = np.flatnonzero(alike if alike.any() else elsewhere)
        if not free[one] or not len(wanted):
            assert places.draw_partner(one, Given(0, 0)) is None or (free[one] and len(wanted))
            continue
        found = set()
        for column in range(len(wanted)):
            asked = Given(column, 0)
            found.add(places.draw_partner(one, asked))
            assert asked.most[0] == len(wanted) - 1
        assert found == set(wanted)
        tried += 1
        for gone in (one, wanted[0]):
            places.remove(gone)
            free[gone] = False
    assert tried > 2


def test_attacker_knows_invariants_exactly(tmp_path: Path) -> None:
    declaration = read_declaration(write(tmp_path, EXACT))
    made = write_rehearsal(declaration, rows={"visits": 300}, bits=Keyed("exact"))
    found = attack(made, AttackRequest(seconds=100, forms=["noised"]), bits=Keyed("attack"))
    assert "agree_state" in found.tables
    truth = pq.read_table(made / "truth/tables/agree_state.parquet").to_pandas()
    tables = counted_tables(open_rehearsal(made).families)
    (states,) = (one for one in tables.used if one.name == "agree_state")
    assert states.law is None
    assert states.read_published(made).tolist() == truth["true_n"].tolist()
