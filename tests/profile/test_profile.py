"""The confidential check: its numbers are those of the rows, and they go nowhere else."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from dprelease.cli import app
from dprelease.errors import OutputError
from dprelease.ledger.ledger import Ledger
from dprelease.profile import look
from dprelease.profile.look import CONFIDENTIAL, WARNING
from dprelease.profile.look import profile as profile_of
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration

CANARY = "Xq7canaryZ"
SCHEMA = """\
table: visits
source: {path: visits.csv, encoding: utf-8}
owner: office
privacy_unit: {id: person, max_groups: 2, max_rows_per_group: 1}
columns:
  person: {type: text}
  city: {type: category, values: [Bern, Thun, Onex]}
  sex: {type: category, values: [f, m]}
  age: {type: integer, lower: 0, upper: 100}
  cost: {type: number, lower: 0, upper: 50, step: 0.5}
"""
RELEASE = """\
title: Visits
tables: [visits.yaml]
budget: {epsilon: 1}
mechanism: discrete_laplace
queries:
  by_city:
    from: visits
    where: age >= 18
    group_by: [city, sex]
    columns: {n: {count: "*"}, cost: {sum: cost}, middle: {median: age}}
output: out/visits
"""
ROWS = [
    "a,Bern,f,20,10", "a,Bern,f,21,60", "a,Bern,m,22,-3", "a,Thun,f,23,1", "a,Onex,f,24,7",
    "b,Bern,f,17,10", "b,Rome,f,30,10", "b,Thun,x,30,10", "b,Rome,x,30,10",
    ",Bern,f,30,10", "c,Bern,f,old,10", "c,Bern,f,200,", "d,Thun,m,40,1e3", "e,Onex,m,41,few",
]  # fmt: skip


def write(folder: Path, rows: list[str] = ROWS, release: str = RELEASE) -> Path:
    (folder / "visits.yaml").write_text(SCHEMA)
    (folder / "release.yaml").write_text(release)
    text = "person,city,sex,age,cost\n" + "".join(f"{row}\n" for row in rows)
    (folder / "visits.csv").write_bytes(text.encode("latin-1"))
    return folder / "release.yaml"


def run_profile(*words: str) -> Result:
    return CliRunner().invoke(app, ["profile", *words])


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("", "", None),
        ("encoding: utf-8", "encoding: utf-8, footer: 14", "`footer`"),
        ("", "", "`delimiter`"),
        ("[Bern, Thun, Onex]", "[BERN, THUN]", "'city'"),
        ("cost: {type: number", "cost: {strip: x, type: boolean} #", "'cost'"),
        (
            "max_groups: 2",
            "lookup: {source: ids.csv, on: person, id: one}, max_groups: 2",
            "`lookup`",
        ),
    ],
)
def test_declaration_that_loses_most_rows_is_named(
    old: str, new: str, word: str | None, tmp_path: Path
) -> None:
    """A release of the same declaration would publish zeros, and may not say why."""
    path = write(tmp_path, [*ROWS[:2], *["a,Bern"] * 3] if word == "`delimiter`" else ROWS)
    (tmp_path / "ids.csv").write_text("person,one\nA,x\n")
    schema = SCHEMA.replace(old, new)
    if "lookup" in new:
        schema = schema.replace("id: person", "id: one") + "  one: {type: text}\n"
    (tmp_path / "visits.yaml").write_text(schema)
    if word == "'cost'":
        path.write_text(RELEASE.replace("cost: {sum: cost}", "cost: {count: cost}"))
    (found,) = profile_of(read_declaration(path), {}).left_out
    assert len(found.likely_mistakes) == (word is not None)
    assert all(word in text for text in found.likely_mistakes if word)
    shown = run_profile(str(path), "--i-may-see-it", "--wide").output
    assert all(text in shown for text in found.likely_mistakes)


def test_profile_accounts_for_every_row(tmp_path: Path) -> None:
    rows = [*ROWS, "f,Z\xfcrich,f,50,5", "g,Bern", "h,Rome,x,5,5"]  # no UTF-8, too few fields
    path = write(tmp_path, rows)
    (told,) = profile_of(read_declaration(path), {}).left_out
    assert (told.lines, told.rows) == (17, 15)
    assert told.condition == 3  # 17 and 5, and an age that can't be read
    assert told.no_cell == 3
    assert told.keys == {"city": 2, "sex": 2}
    assert told.no_id == 1
    assert told.bounded == 1 + 2  # a second row of a in one cell, and two of four cells of a
    assert told.remaining_rows == 15 - 3 - 3 - 1 - 3
    assert told.unread == {"person": 0, "city": 0, "sex": 0, "age": 1, "cost": 1}
    assert told.low == {"cost": 1, "age": 0}
    assert told.high == {"cost": 2, "age": 1}
    assert told.missing == {"cost": 2, "age": 0}


@pytest.mark.parametrize("thousands", ["", ', thousands: "."'], ids=["commas", "and points"])
def test_numbers_in_other_formats_are_counted_as_unread(thousands: str, tmp_path: Path) -> None:
    """A decimal point in a file of decimal commas is no missing value."""
    costs = ['"10,5"', "10.00", "few", "", "12.5", "7", '"1.00,5"']
    path = write(tmp_path, [f"p{i},Bern,f,30,{cost}" for i, cost in enumerate(costs)])
    schema = tmp_path / "visits.yaml"
    declared = f'{{path: visits.csv, encoding: latin-1, decimal: ","{thousands}}}'
    schema.write_text(re.sub("source: .*", f"source: {declared}", schema.read_text()))
    (told,) = profile_of(read_declaration(path), {}).left_out
    assert told.unread["cost"] == 4
    assert told.missing["cost"] == 5


def test_profile_of_joins_and_private_keys(tmp_path: Path) -> None:
    """Losses are of the rows that the query asks: of pairs of rows, and of rows with a key."""
    rows = ["a,Bern,f,20,1", "a,Thun,f,20,1", "b,Bern,f,20,1", "c,,f,20,1", "d,Rome,f,20,1"]
    release = RELEASE.replace("where: age >= 18\n    group_by: [city, sex]", "HOW").replace(
        ", cost: {sum: cost}, middle: {median: age}", ""
    )
    found = "group_by: [city]\n    private_keys: true"
    path = write(tmp_path, rows, release.replace("{epsilon: 1}", "{epsilon: 1, delta: 1e-9}"))
    path.write_text(path.read_text().replace("HOW", found))
    (told,) = profile_of(read_declaration(path), {}).left_out
    assert (told.asked, told.keys, told.no_cell) == (5, {"city": 2}, 2)  # one is not declared
    assert (told.bounded, told.remaining_rows) == (None, 3)
    stays = SCHEMA.replace("table: visits", "table: stays").replace("visits.csv", "stays.csv")
    (tmp_path / "stays.yaml").write_text(
        re.sub("  (city|sex|age|cost): .*\n", "", stays) + "  night: {type: integer}\n"
    )
    (tmp_path / "stays.csv").write_text("person,night\na,1\na,2\na,3\nb,1\n")
    joined = "join: {table: stays, on_unit: true, max_groups: 2, max_rows_per_group: 2}\n    group_by: [city]"
    path.write_text(
        release.replace("[visits.yaml]", "[visits.yaml, stays.yaml]").replace("HOW", joined)
    )
    (told,) = profile_of(read_declaration(path), {}).left_out
    assert (told.rows, told.asked, told.bounded, told.remaining_rows) == (5, 7, 2, 5)


def rows_within_limits(frame: pd.DataFrame, max_groups: int, max_rows: int) -> int:
    """Return how many rows bounds keep, whichever these are."""
    sizes = frame.groupby(["person", "city", "sex"]).size().clip(upper=max_rows)
    return sum(part.nlargest(max_groups).sum() for _, part in sizes.groupby("person"))


def test_tried_limits_use_statements_of_the_release(tmp_path: Path) -> None:
    """Cells of one size for a person, so that it does not matter which of them are kept."""
    rows = [
        f"{who},{city},{sex},30,10"
        for who, cities, times in (("a", 3, 4), ("b", 2, 3), ("c", 1, 9), ("d", 1, 1))
        for city in ("Bern", "Thun", "Onex")[:cities]
        for sex in "fm"
        for _ in range(times)
    ]
    path = write(tmp_path, rows)
    frame = pd.DataFrame([row.split(",")[:3] for row in rows], columns=["person", "city", "sex"])
    found = profile_of(read_declaration(path), {}).bounds
    seen: dict[tuple[str, int], float] = {}
    for one in found:
        declared = {"max_groups": 2, "max_rows_per_group": 1, one.bound: one.value}
        kept = rows_within_limits(frame, declared["max_groups"], declared["max_rows_per_group"])
        assert one.cut_rows == pytest.approx(1 - kept / len(rows))
        sizes = frame.groupby(["person", "city", "sex"]).size().groupby("person")
        losing = (sizes.size() > declared["max_groups"]) | (
            sizes.max() > declared["max_rows_per_group"]
        )
        assert one.cut_people == losing.mean()
        step = {"n": 1, "cost": 10}[one.column.split(".")[0]]
        assert one.cut == pytest.approx((len(rows) - kept) / 6 * step) or one.column.startswith(
            "cost"
        )
        assert one.noise is not None
        assert one.error == one.cut + one.noise
        seen[one.bound, one.value] = one.noise
    assert {value for bound, value in seen if bound == "max_groups"} == {1, 2, 5}
    assert {value for bound, value in seen if bound == "max_rows_per_group"} == {1, 2, 5}
    assert seen["max_groups", 1] < seen["max_groups", 2] < seen["max_groups", 5]


def test_tried_limits_of_consistent_tables(tmp_path: Path) -> None:
    """One engine adds up the finest cells anew for every bound."""
    release = RELEASE.replace("    group_by: [city, sex]\n", "    marginals: [[], [city], [sex]]\n")
    release = release.replace(", middle: {median: age}}", "}\n    consistent: true")
    release = release.replace("{epsilon: 1}", "{rho: 1, delta: 1e-9}").replace(
        "mechanism: discrete_laplace", "mechanism: discrete_gaussian"
    )
    path = write(tmp_path, [f"a,{c},f,30,1" for c in ("Bern", "Thun", "Onex")] * 4, release)
    found = profile_of(read_declaration(path), {}).bounds
    by_groups = {
        one.value: one.cut_rows
        for one in found
        if one.query == "by_city_city" and one.column == "n" and one.bound == "max_groups"
    }
    assert by_groups == pytest.approx({1: 11 / 12, 2: 10 / 12, 5: 9 / 12})


def test_effect_of_limits_on_means_and_ratios(tmp_path: Path) -> None:
    """One row of `a`, who has nine, and one of each other person: `a` weighs as they do."""
    release = RELEASE.replace('n: {count: "*"}, cost: {sum: cost}, middle: {median: age}', "COLS")
    release = release.replace("COLS", "cost: {mean: cost}, rate: {ratio: [cost, age]}")
    path = write(
        tmp_path,
        [*["a,Bern,f,50,10"] * 9, *(f"p{i},Onex,m,50,0" for i in range(9)), "a,Thun,f,17,50"],
        release,
    )
    (told,) = profile_of(read_declaration(path), {}).left_out
    assert told.fractions["cost"] == pytest.approx((5.0, 1.0))
    assert told.fractions["rate"] == pytest.approx((0.1, 0.02))
    done = run_profile(str(path), "--i-may-see-it")
    assert re.search(r"by_city +cost +5 +1\n", done.output)
    write(tmp_path, ["b,Rome,f,50,10"], release)
    (told,) = profile_of(read_declaration(path), {}).left_out
    assert told.fractions["cost"] == (None, None)


# Who sees it


def test_profile_is_printed_to_terminals_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path)
    opened = look.open_tallying_engine
    monkeypatch.setattr(look, "open_tallying_engine", lambda *_: pytest.fail("rows were read"))
    for words in ([], ["--json"]):
        done = run_profile(str(path), *words)
        assert done.exit_code == 2
        assert "DP-PROFILE-001" in done.output
    monkeypatch.setattr(look, "open_tallying_engine", opened)
    done = run_profile(str(path), "--i-may-see-it")
    assert done.exit_code == 0
    assert done.output.startswith("CONFIDENTIAL.")
    assert done.output.rstrip().endswith("may see the data.")
    assert "the guarantee of a release does not cover" in " ".join(done.output.split())
    monkeypatch.setattr("dprelease.cli.profile_command._is_terminal", lambda: True)
    assert run_profile(str(path)).exit_code == 0


def test_profile_files_are_readable_by_the_owner_only(tmp_path: Path) -> None:
    path, output = write(tmp_path), tmp_path / "profile.json"
    picture = tmp_path / "profile.svg"
    mask = os.umask(0)
    try:
        done = run_profile(str(path), "--output", str(output), "--plot", str(picture))
    finally:
        os.umask(mask)
    assert done.exit_code == 0, done.output
    for file in (output, picture):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    told = json.loads(output.read_text())
    assert (told["confidential"], told["warning"]) == (CONFIDENTIAL, WARNING)
    assert told["rows"][0]["counted"] == 5
    assert "CONFIDENTIAL" in picture.read_text()
    assert not re.search(r"\d{2}", done.output.replace(str(output), ""))  # nothing is told twice
    before = output.read_bytes()
    done = run_profile(str(path), "--output", str(output))
    assert "DP-OUTPUT-014" in done.output
    assert output.read_bytes() == before
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    assert "DP-OUTPUT-014" in run_profile(str(path), "--output", str(link)).output


@pytest.mark.parametrize("place", ["out/visits/p.txt", "out/visits/deep/p.txt", "link/p.txt"])
@pytest.mark.parametrize("published", [True, False])
def test_profile_file_inside_a_release_is_refused(
    tmp_path: Path, place: str, published: bool
) -> None:
    path = write(tmp_path)
    (tmp_path / "out/visits/deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "out/visits")
    if published:
        (tmp_path / "out/visits/manifest.json").write_text("{}")
    for option in ("--output", "--plot"):
        file = (tmp_path / place).with_suffix(".svg")
        done = run_profile(str(path), option, str(file), "--i-may-see-it")
        assert "DP-PROFILE-002" in done.output
        assert not file.exists()


@pytest.mark.each
@pytest.mark.parametrize("option", ["--output", "--plot"])
@pytest.mark.parametrize("pattern", ["*.svg", "**/*.svg", "file://{here}"])
@pytest.mark.parametrize("place", ["p.svg", "link/p.svg"])
def test_profile_file_matching_a_source_is_refused(
    tmp_path: Path, option: str, pattern: str, place: str
) -> None:
    """Else its lines would count as rows, and how many there are the data say."""
    path = write(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    schema, found = tmp_path / "visits.yaml", pattern.format(here=tmp_path)
    kind = "parquet" if "://" in found else "csv"
    written = schema.read_text()
    source = "{path: visits.csv, encoding: utf-8}"
    assert source in written
    schema.write_text(written.replace(source, f"{{path: '{found}', format: {kind}}}"))
    done = run_profile(str(path), option, str(tmp_path / place), "--i-may-see-it")
    assert "DP-OUTPUT-012" in done.output
    assert not (tmp_path / place).exists()


def test_failing_profile_leaves_no_file(tmp_path: Path) -> None:
    path, output = write(tmp_path), tmp_path / "profile.txt"
    (tmp_path / "visits.csv").unlink()
    assert "DP-DATA-001" in run_profile(str(path), "--output", str(output)).output
    assert not output.exists()
    assert "DP-OUTPUT-005" in run_profile(str(path), "--i-may-see-it", "--plot", "p.txt").output


def test_profile_with_source_option(tmp_path: Path) -> None:
    path, output = write(tmp_path), tmp_path / "profile.json"
    (tmp_path / "visits.csv").rename(tmp_path / "visits, last year.csv")
    other = f"visits={tmp_path / 'visits, last year.csv'}"
    found = run_profile(str(path), "--output", str(output), "--source", other)
    assert found.exit_code == 0, found.output
    assert json.loads(output.read_text())
    assert "last year" not in output.read_text()
    output.unlink()
    for wrong, code in {"visit=x.csv": "DP-PATH-004", "visits": "DP-PATH-004"}.items():
        refused = run_profile(str(path), "--output", str(output), "--source", wrong)
        assert code in refused.output
        assert not output.exists()


def test_profile_charges_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, release=RELEASE + "ledger: ledger.sqlite\n")
    monkeypatch.setattr(Ledger, "reserve_for_block", lambda *_: pytest.fail("it was charged"))
    before = sorted(tmp_path.rglob("*"))
    assert run_profile(str(path), "--i-may-see-it").exit_code == 0
    assert sorted(tmp_path.rglob("*")) == before


def test_profile_shows_no_values(tmp_path: Path) -> None:
    """Numbers of rows are: values, such as ids, undeclared keys and texts that can't be read, not."""
    rows = [*ROWS, f"{CANARY},{CANARY},f,30,10", f"h,Bern,f,{CANARY},{CANARY}"]
    path, picture = write(tmp_path, rows), tmp_path / "p.svg"
    for words in ([], ["--json"], ["--wide", "--plot", str(picture)]):
        done = run_profile(str(path), "--i-may-see-it", *words)
        assert done.exit_code == 0
        assert CANARY not in done.output
    assert CANARY not in picture.read_text()


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + "engine: spark\n",
        lambda text: (
            text.replace(
                "mechanism: discrete_laplace", "mechanism: symmetric_alpha_stable"
            ).replace(", middle: {median: age}", "")
            + "federated: {parties: 2}\n"
        ),
    ],
    ids=["spark", "parties"],
)
def test_releases_without_profile_are_refused(tmp_path: Path, change: Callable[[str], str]) -> None:
    path = write(tmp_path, release=change(RELEASE))
    with pytest.raises(OutputError) as caught:
        profile_of(read_declaration(path), {})
    assert caught.value.code == "DP-PROFILE-003"


def test_profile_counts_the_rows_of_the_release(tmp_path: Path) -> None:
    """What is counted is what the release counts: the rows of the profile are those of its tables."""
    rows = [f"p{i},{'Bern' if i % 3 else 'Onex'},f,{20 + i % 50},5" for i in range(300)]
    path = write(tmp_path, rows, RELEASE.replace("epsilon: 1", "epsilon: 90"))
    (told,) = profile_of(read_declaration(path), {}).left_out
    folder = run(read_declaration(path))
    frame: Any = pd.read_parquet(folder / "by_city.parquet")
    assert abs(frame["n"].sum() - told.remaining_rows) <= 3
