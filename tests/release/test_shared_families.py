"""Queries that name the same family: their tables are consistent, or refused with their place."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

import dprelease
from dprelease.errors import DpReleaseError, Findings
from dprelease.exact.spark import spark_engine
from dprelease.noise import noised_answers
from dprelease.planning.plan import Plan
from dprelease.planning.prepare import prepare
from dprelease.release.runs.pipeline import run
from tests.exact.spark import KilledOnce, local_spark
from tests.release.area_family import BY_ID, publish_family, read_family
from tests.release.test_consistent import read_tables
from tests.release.test_consistent_runs import files
from tests.replay import Keyed

WHOLE = "{non_negative: true}"
needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
OTHER = """\
  other:
    from: people
    {asked}
    columns: {{n: {{count: "*"}}}}
    consistent: true
    family: all
    {rest}
"""
ASKED = {
    "asked": "hierarchy: [state, town]\n    marginals: [[], [sex], [sex, old]]",
    "consistent": "true\n    family: all",
}
LEFT = "hierarchy: [state, town]\n    marginals: [[band], [band, old]]"


def two_queries(asked: str = LEFT, rest: str = "", **changed: str) -> dict[str, str]:
    """Return what is asked of two queries of one family."""
    return {**ASKED, "more": OTHER.format(asked=asked, rest=rest), **changed}


def test_tables_of_two_queries_are_consistent(tmp_path: Path) -> None:
    """To the last bit: in all tables of both, at every level."""
    folder = publish_family(tmp_path, **two_queries())
    report = dprelease.verify(folder)
    assert report.ok, [str(finding) for finding in report.findings]
    assert "the tables of 'all' follow from its measurements" in report.checked
    held = read_tables(folder, "estimates")
    assert {"pop_state_sex", "other_state_band", "other_town_band_old"} <= held.keys()
    assert len({sum(table["n"].to_pylist()) for table in held.values()}) == 1
    by_old: dict[str, dict[object, float]] = {}
    for name in ("pop_town_sex_old", "other_town_band_old"):
        table = held[name].to_pandas()
        by_old[name] = table.groupby(["town", "old"])["n"].sum().to_dict()
    assert by_old["pop_town_sex_old"] == by_old["other_town_band_old"]


def sorted_mechanisms(plan: Plan) -> list[object]:
    found = [
        (column.query.keys, column.measurement.sensitivity, column.mechanism)
        for column in plan.columns
    ]
    return sorted(found, key=str)


@pytest.mark.parametrize("unit", ["privacy_unit: {}\n", BY_ID])
def test_two_queries_cost_as_much_as_one(unit: str, tmp_path: Path) -> None:
    """Contribution limits use the finest cells of the union."""
    together = (
        "hierarchy: [state, town]\n    marginals: [[], [sex], [sex, old], [band], [band, old]]"
    )
    _, one = prepare(read_family(tmp_path / "one", asked=together, unit=unit))
    queries, apart = prepare(read_family(tmp_path / "two", **two_queries(unit=unit)))
    assert len({id(query.finest) for query in queries}) == 1
    assert queries[0].finest is not None
    assert [key.column for key in queries[0].finest.keys] == ["town", "sex", "old", "band"]
    assert sorted_mechanisms(one) == sorted_mechanisms(apart)
    assert one.guarantee == apart.guarantee


def test_shared_families_from_frames_equal_those_from_files(tmp_path: Path) -> None:
    one = publish_family(tmp_path / "file", **two_queries())
    declaration = read_family(tmp_path / "frame", **two_queries())
    frame = pd.read_csv(tmp_path / "frame/people.csv")
    (tmp_path / "frame/people.csv").unlink()
    assert files(one) == files(run(declaration, bits=Keyed("family"), frames={"people": frame}))


@pytest.mark.audit
@needs_java
@pytest.mark.filterwarnings("ignore")
def test_family_noise_survives_a_killed_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has drawn noise for some blocks; the result uses the draws of another worker.

    Compared with the truth: no block lacks noise or has the noise of two draws.
    """
    monkeypatch.setattr(spark_engine, "MANY_CELLS", 2)
    monkeypatch.setattr(spark_engine, "BLOCK_CELLS", 5)
    monkeypatch.setattr(noised_answers, "FreshNoise", lambda given: KilledOnce(given, tmp_path))
    (tmp_path / "staging").mkdir()
    engine = f"engine: spark\nspark: {{staging: 'file://{tmp_path}/staging'}}\n"
    with local_spark():
        all_keys = "hierarchy: [state, town]\n    marginals: [[band], [sex, old, band]]"
        more = two_queries(all_keys)["more"] + engine
        asked = two_queries(more=more, consistent=f"{WHOLE}\n    family: all")
        asked["more"] = asked["more"].replace("consistent: true", f"consistent: {WHOLE}")
        folder = run(read_family(tmp_path, **asked))
    assert (tmp_path / "killed").exists()
    report = dprelease.verify(folder)
    assert report.ok, [str(finding) for finding in report.findings]
    assert not list((tmp_path / "staging").iterdir())
    truth = pd.read_csv(tmp_path / "people.csv")
    names = [path.stem for path in (folder / "measurements").glob("*.parquet")]
    apart = []
    for name in names:
        held = pq.read_table(folder / "measurements" / f"{name}.parquet").to_pandas()
        if list(held.columns) == ["town", "sex", "n"]:
            true = truth.groupby(["town", "sex"]).size().to_dict()
            apart += [n - true.get((town, sex), 0) for town, sex, n in held.itertuples(index=False)]
    assert len(apart) == 12
    assert len(set(apart)) > 1
    assert max(map(abs, apart)) < 1000


@pytest.mark.audit
@needs_java
@pytest.mark.filterwarnings("ignore")
def test_spark_publishes_the_same_shared_family(tmp_path: Path) -> None:
    one = publish_family(tmp_path / "file", **two_queries())
    with local_spark():
        asked = two_queries(mechanism="discrete_gaussian\nengine: spark")
        other = publish_family(tmp_path / "spark", **asked)
    assert files(one) == files(other)


REFUSED: dict[str, tuple[dict[str, str], str, str]] = {
    "other rows": (two_queries(rest="where: age > 3"), "other.where", "`where`"),
    "other areas": (two_queries("hierarchy: [town]\n    marginals: [[band]]"), "other.hierarchy", "`hierarchy`"),
    "no areas": (two_queries("marginals: [[band]]"), "other.hierarchy", "`hierarchy`"),
    "other columns": (
        two_queries(columns='{n: {count: "*"}, pay: {sum: pay}}'), "other.columns", "`columns`",
    ),
    "other aims": (two_queries(consistent="{non_negative: true}\n    family: all"), "other.consistent", "not that of 'pop'"),
    "another key of its own": (
        two_queries(rest="derive: {x: {cut: pay, edges: [0, 50, 101]}}"), "other.derive", "`derive`",
    ),
    "bands": (two_queries(rest="histogram: {column: pay, edges: [0, 50, 101]}"), "other.histogram", "bins"),
    "a part of its own": (two_queries(rest="share: 2"), "other.share", "one part of the budget"),
    "a table twice": (
        two_queries("hierarchy: [state, town]\n    marginals: [[band], [old, sex]]"), "other.marginals[1]",
        "[old, sex] is one of 'pop' already",
    ),
    "a name of a query": (
        {**two_queries(), "consistent": "true\n    family: other",
         "more": OTHER.format(asked=LEFT, rest="").replace("    family: all\n", "")},
        "other.from", "does not belong to it",
    ),
    "nothing that agrees": (
        {"asked": "group_by: [sex]", "consistent": "false\n    family: all"}, "pop.family", "does not declare",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_queries_that_form_no_family_are_refused(what: str, tmp_path: Path) -> None:
    asked, place, words = REFUSED[what]
    declaration = read_family(tmp_path, **asked)
    (tmp_path / "people.csv").unlink()
    with pytest.raises(DpReleaseError) as caught:
        prepare(declaration)
    error = caught.value
    found = list(error.errors) if isinstance(error, Findings) else [error]
    told = [one for one in found if one.code == "DP-CONSIST-030"]
    assert any(
        one.place.key.startswith(f"queries.{place}") and words in one.cause for one in told
    ), str(error)


def test_dependent_keys_are_refused_with_their_place(tmp_path: Path) -> None:
    declaration = read_family(
        tmp_path, **two_queries("hierarchy: [state, town]\n    marginals: [[band], [age]]")
    )
    with pytest.raises(DpReleaseError) as caught:
        prepare(declaration)
    error = caught.value
    found = list(error.errors) if isinstance(error, Findings) else [error]
    assert {(one.code, one.place.key) for one in found} == {
        ("DP-CONSIST-002", "queries.other.marginals[1][0]")
    }


def test_family_of_one_query_equals_the_query(tmp_path: Path) -> None:
    alone = publish_family(tmp_path / "alone", consistent="true\n    family: all")
    plain = publish_family(tmp_path / "plain")
    assert files(alone) == files(plain)
    assert dprelease.verify(alone).ok
