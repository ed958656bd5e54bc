"""Releases that are declared in Python: the same texts, checks and results as from files."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

import dprelease
from dprelease.errors import DeclarationError, DpReleaseError, Findings, OutputError
from dprelease.errors.error_tree import EXIT_PUBLISHED
from dprelease.planning.declaration_findings import single_errors
from dprelease.release import execute
from dprelease.schema.typed import generator
from dprelease.schema.yaml_text.python_values import yaml_text
from dprelease.schema.yaml_text.reader import parse_yaml
from tests.ledger.test_ledger import release_with_ledger
from tests.release.build import RELEASE, ROWS, SCHEMA, write

ROOT = Path(__file__).parents[2]
NAMES = ["person", "city", "age", "pay"]


def frame() -> pd.DataFrame:
    rows = [row.strip().split(",") for row in ROWS]
    found = pd.DataFrame(rows, columns=NAMES)
    return found.astype({"person": int, "age": int, "pay": float})


def declared(source: object = None) -> dict[str, Any]:
    """Return the small release as a mapping, with its table in it."""
    schema = yaml.safe_load(SCHEMA)
    release = yaml.safe_load(RELEASE)
    release["budget"]["delta"] = 1e-8
    return {**release, "tables": [{**schema, "source": frame() if source is None else source}]}


def at(values: Any, *keys: str | int) -> Any:
    for key in keys:
        values = values[key]
    return values


def test_mapping_and_yaml_file_are_the_same_release(tmp_path: Path) -> None:
    path = write(tmp_path)
    release = dprelease.Release(declared("people.csv"), folder=tmp_path)
    again = tmp_path / "again"
    assert release.to_yaml(again) == (again / "release.yaml").read_text()
    read = dprelease.read_release(again / "release.yaml")
    assert read.declaration.texts == release.declaration.texts
    assert read.to_yaml() == release.to_yaml()
    assert release.plan().to_json() == dprelease.read_release(path).plan().to_json()
    published = release.run()
    assert published == tmp_path / "out" / "people"
    assert dprelease.verify(published).ok
    with pytest.raises(OutputError, match="DP-OUTPUT-014"):
        release.to_yaml(again)
    with pytest.raises(OutputError, match="DP-OUTPUT-002"):
        release.to_yaml(path / "in a file")


@pytest.mark.parametrize("form", [lambda x: x, pa.Table.from_pandas, lambda x: {"frame": x}])
def test_frames_are_sources(tmp_path: Path, form: Callable[[pd.DataFrame], object]) -> None:
    release = dprelease.Release(declared(form(frame())), folder=tmp_path)
    assert yaml.safe_load(release.declaration.texts["people.yaml"])["source"] == {"frame": "people"}
    assert dprelease.verify(release.run()).ok
    with pytest.raises(DpReleaseError):  # another frame replaces it, and lacks the columns
        release.run(frames={"people": frame()[["person"]]}, output=tmp_path / "other")
    with pytest.raises(DeclarationError, match="DP-PATH-004"):
        release.run(sources={"people": tmp_path / "people.csv"}, output=tmp_path / "other")


def test_schemas_may_be_files_or_mappings(tmp_path: Path) -> None:
    """The names of files in memory differ from those of files on the disk."""
    write(tmp_path)
    other = {**declared("people.csv")["tables"][0], "table": "others"}
    both = {**declared(), "tables": ["people.yaml", {**other, "table": "people"}]}
    with pytest.raises(DeclarationError, match="DP-RELEASE-006") as caught:
        dprelease.Release(both, folder=tmp_path)
    assert str(caught.value.place) == "tables[1]"
    release = dprelease.Release({**declared(), "tables": ["people.yaml", other]}, folder=tmp_path)
    assert set(release.declaration.texts) == {"release.yaml", "people.yaml", "others.yaml"}
    assert release.declaration.texts["people.yaml"] == SCHEMA


WRONG: list[tuple[tuple[str | int, ...], object]] = [
    (("tables", 0, "columns", "age", "lower"), 200),
    (("tables", 0, "columns", "age", "type"), "int"),
    (("tables", 0, "privacy_unit", "id"), "name"),
    (("queries", "by_city", "columns", "people", "count_distinct"), "persn"),
    (("queries", "by_city", "where"), "agee > 3"),
    (("queries", "all", "from"), "peeple"),
    (("budget", "epsilon"), -1),
    (("budget", "epsilon"), float("nan")),
    (("title",), None),
    (("output",), "../up"),
    (("title",), object()),
    (("title",), {1, 2}),
    (("tables", 0, "columns", "age", "upper"), np.array([3, 4])),
]


@pytest.mark.parametrize(("keys", "wrong"), WRONG)
def test_errors_name_key_paths_of_the_mapping(
    tmp_path: Path, keys: tuple[str | int, ...], wrong: object
) -> None:
    """The same errors as of the YAML files, at the same keys."""
    values = declared("people.csv")
    at(values, *keys[:-1])[keys[-1]] = wrong
    with pytest.raises(DpReleaseError) as caught:
        dprelease.Release(values, folder=tmp_path).plan()
    errors = single_errors(caught.value)
    assert all(error.place.line is None and error.place.file is None for error in errors)
    whole = re.sub(r"\.(\d)", r"[\1]", ".".join(map(str, keys)))
    assert any(error.place.key.startswith(whole.rpartition(".")[0]) for error in errors)
    assert not re.search(r"\w\.yaml", str(caught.value.place))
    try:
        texts = {"release": yaml_text({**values, "tables": ["people.yaml"]})}
        texts["people"] = yaml_text(values["tables"][0])
    except DeclarationError:
        return
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    with pytest.raises(DpReleaseError) as read:
        dprelease.read_release(tmp_path / "release.yaml").plan()
    of_files = single_errors(read.value)
    assert [error.code for error in errors] == [error.code for error in of_files]
    for one, other in zip(errors, of_files, strict=True):
        prefix = "" if other.place.file == "release.yaml" else "tables[0]."
        assert one.place.key == prefix + other.place.key


def test_all_errors_are_reported_together(tmp_path: Path) -> None:
    values = declared("people.csv")
    for keys, wrong in (WRONG[0], WRONG[4], WRONG[6]):
        at(values, *keys[:-1])[keys[-1]] = wrong
    with pytest.raises(Findings) as caught:
        dprelease.Release(values, folder=tmp_path)
    assert len({error.place.key for error in caught.value.errors}) == 3
    assert str(caught.value) == "\n\n".join(map(str, caught.value.errors))


def _cyclic() -> dict[str, Any]:
    values: dict[str, Any] = {}
    values["about"] = values
    return values


@pytest.mark.parametrize(
    "wrong",
    [
        5, "release.yaml", None, [], {}, {"tables": 5}, {"tables": [5]}, {5: 6}, {(1, 2): 3},
        {1: 2, "1": 3}, {"tables": [{}]}, {"tables": [{"table": 3, "source": frame()}]},
        {"tables": [{"table": "../x", "source": {"frame": object()}}]}, {"title": "\ud800"},
        {"title": "\x00"}, {"title": "${A}"}, {"tables": [{"table": "t" * 5000}]}, _cyclic(),
        {"tables": ["~/x.yaml"]}, {"tables": ["s3://bucket/x.yaml"]}, {"tables": ["nothing.yaml"]},
    ],
)  # fmt: skip
def test_wrong_arguments_raise_own_errors(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(DpReleaseError):
        dprelease.Release(wrong, folder=tmp_path)
    with pytest.raises(DpReleaseError):
        dprelease.plan(wrong)
    assert not dprelease.check(wrong).ok


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.dates(), st.decimals(),
    st.fractions(), st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
)  # fmt: skip


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9),
        st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=9),
        min_size=1,
        max_size=4,
    )
)
def test_python_values_survive_yaml(values: dict[str, Any]) -> None:
    """Every scalar is read as its text; only texts can look like something else."""

    def wanted(value: Any) -> Any:
        if isinstance(value, list):
            return [wanted(item) for item in value]
        if value is None:
            return None
        return str(value).lower() if isinstance(value, bool) else str(value)

    assume("<<" not in values)  # a merge key, which is refused
    assert parse_yaml(yaml_text(values), Path("x.yaml")).values == {
        key: wanted(value) for key, value in values.items()
    }


def test_numbers_of_all_kinds_are_written_as_texts() -> None:
    values = {
        "a": [np.int64(3), np.float64(0.5), Decimal("0.10"), Fraction(1, 2), True, np.bool_(False)],
        "b": pd.Series(["x", "y"]),
        "c": (date(2026, 1, 31), Path("a/b")),
    }
    assert parse_yaml(yaml_text(values), Path("x.yaml")).values == {
        "a": ["3", "0.5", "0.10", "1/2", "true", "false"],
        "b": ["x", "y"],
        "c": ["2026-01-31", "a/b"],
    }


def test_numbers_are_written_without_quotes_and_texts_like_numbers_with_them() -> None:
    values = {
        "epsilon": 1, "delta": 1e-9, "step": Decimal("0.10"), "below": -3.5, "half": Fraction(1, 2),
        "day": date(2026, 1, 31), "codes": ["01", "1", "1e-9", "no", 7], 3: "4",
    }  # fmt: skip
    assert yaml.safe_load(yaml_text(values)) == {
        "epsilon": 1, "delta": "1e-09", "step": 0.1, "below": -3.5, "half": "1/2",
        "day": date(2026, 1, 31), "codes": ["01", "1", "1e-9", "no", 7], 3: "4",
    }  # fmt: skip
    assert "delta: 1e-09\n" in yaml_text(values)


def test_run_result(tmp_path: Path) -> None:
    path, ledger = release_with_ledger(tmp_path), tmp_path / "ledger.sqlite"
    result = dprelease.run(path)
    manifest = json.loads((result.folder / "manifest.json").read_text())
    assert result.digest == manifest["digest"]
    assert result.files == ("all.parquet", "by_city.parquet", "manifest.json")
    assert result.spent is not None
    assert result.spent.epsilon == Decimal(manifest["guarantee"]["epsilon"])
    assert result.spent.delta == 0
    assert result.ledger_entry == manifest["ledger"]["entry"]
    assert result.published
    with pytest.raises(FrozenInstanceError):
        result.digest = ""  # type: ignore[misc]
    balance = dprelease.read_ledger(ledger)["office/people"]
    assert balance.releases == 1
    assert Fraction(1, 2000) < balance.spent <= Fraction(11, 10_000)
    assert balance.spent + balance.left == balance.amount == 1
    assert list(dprelease.read_ledger(ledger).to_pandas()["table"]) == ["office/people"]
    with pytest.raises(DpReleaseError, match=r"(?s)DP-LEDGER-006.*did you mean 'office/people'"):
        dprelease.read_ledger(ledger)["office/peple"]


def test_if_published_skip_is_not_charged(tmp_path: Path) -> None:
    path, ledger = release_with_ledger(tmp_path), tmp_path / "ledger.sqlite"
    first = dprelease.run(path)
    assert dprelease.run(path, if_published="skip") == replace(first, published=False)
    with pytest.raises(OutputError, match="DP-OUTPUT-018") as caught:
        dprelease.run(path)
    assert caught.value.exit_code == 5
    text = path.read_text()
    path.write_text(text.replace("title: People", "title: Persons"))
    policies: tuple[Literal["fail", "skip"], ...] = ("fail", "skip")
    for policy in policies:  # another declaration is wrong, and not published
        with pytest.raises(OutputError, match="DP-OUTPUT-001") as caught:
            dprelease.run(path, if_published=policy)
        assert caught.value.exit_code == 2
    path.write_text(text)
    assert dprelease.read_ledger(ledger)["office/people"].releases == 1
    (first.folder / "all.parquet").unlink()  # it is not whole
    with pytest.raises(OutputError, match="DP-OUTPUT-001"):
        dprelease.run(path, if_published="skip")
    with pytest.raises(OutputError, match="DP-OUTPUT-019"):
        dprelease.run(path, if_published="never")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="overwrites"):
        dprelease.run(path, overwrites=True)  # type: ignore[call-arg]


def test_if_published_skip_with_overwrite_replaces_other_declarations_only(tmp_path: Path) -> None:
    path, ledger = release_with_ledger(tmp_path), tmp_path / "ledger.sqlite"
    first = dprelease.run(path)
    again = dprelease.run(path, if_published="skip", overwrite=True)
    assert again == replace(first, published=False)
    path.write_text(path.read_text().replace("title: People", "title: Persons"))
    other = dprelease.run(path, if_published="skip", overwrite=True)
    assert other.published
    assert other.folder == first.folder
    assert other.digest != first.digest
    assert dprelease.read_ledger(ledger)["office/people"].releases == 2
    assert dprelease.run(path, overwrite=True).published


def test_replaced_sources_are_not_published(tmp_path: Path) -> None:
    """The declared text stays, the manifest names the table, and no path is published."""
    path = write(tmp_path)
    test = tmp_path / "test data.csv"
    (tmp_path / "people.csv").rename(test)
    with pytest.raises(DpReleaseError, match="DP-DATA-001"):
        dprelease.run(path)
    result = dprelease.run(path, sources={"people": test})
    text = (result.folder / "manifest.json").read_text()
    held = json.loads(text)["declaration"]
    assert held["replaced_sources"] == ["people"]
    assert held["texts"]["people.yaml"] == SCHEMA
    assert "test data" not in text
    assert dprelease.verify(result.folder).ok
    assert not dprelease.run(path, sources={"people": test}, if_published="skip").published


@pytest.mark.parametrize(
    ("sources", "code"),
    [
        ({"people": "people.parquet"}, "DP-PATH-004"),
        ({"people": "folder/"}, "DP-PATH-004"),
        ({"peple": "people.csv"}, "DP-PATH-004"),
        ({"people": 5}, "DP-PATH-004"),
        ({"people": ""}, "DP-PATH-004"),
        (["people"], "DP-PATH-004"),
        ({"people": "~/people.csv"}, "DP-PATH-002"),
        ({"people": "s3a://bucket/people.csv"}, "DP-SCHEMA-011"),
        ({"people": "postgresql://server/db"}, "DP-"),
        ({"people": "out/people/x.csv"}, "DP-OUTPUT-012"),
        ({"people": "x\x00.csv"}, "DP-"),
    ],
)
def test_wrong_sources_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sources: Any, code: str
) -> None:
    path = write(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DpReleaseError) as caught:
        dprelease.run(path, sources=sources)
    assert caught.value.code.startswith(code)
    assert not (tmp_path / "out" / "people").exists()


def test_log_has_steps_and_no_values(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path)
    with caplog.at_level(logging.DEBUG, logger="dprelease"):
        result = dprelease.run(path)
        dprelease.run(path, if_published="skip")
    assert {record.name for record in caplog.records} == {"dprelease"}
    assert result.digest in caplog.text
    fields = {field for row in ROWS for field in row.strip().split(",") if len(field) > 3}
    assert not [field for field in fields if field in caplog.text.replace(result.digest, "")]


def test_profile_of_a_release_in_python(tmp_path: Path) -> None:
    release = dprelease.Release(declared(), folder=tmp_path)
    found = dprelease.profile_release(release)
    assert found.to_json()["rows"][0]["rows"] == len(ROWS)
    assert "60" not in repr(found)
    assert dprelease.profile_release(write(tmp_path)).to_json() is not None
    for wrong in (5, declared(), None):
        with pytest.raises(DeclarationError, match="DP-DECL-003"):
            dprelease.profile_release(wrong)  # type: ignore[arg-type]


def test_check_returns_errors(tmp_path: Path) -> None:
    path = write(tmp_path)
    found = dprelease.check(path)
    assert (found.ok, found.tables, found.columns) == (True, 2, 3)
    assert dprelease.check(declared()).ok
    schema = dprelease.check(tmp_path / "people.yaml")
    assert (schema.ok, schema.is_schema, schema.columns) == (True, True, 4)
    path.write_text(RELEASE.replace("by_city:", "by_city:\n    wher: x"))
    wrong = dprelease.check(path)
    assert [error.code for error in wrong.findings] == ["DP-DECL-001"]
    assert wrong.findings[0].place.line == RELEASE[: RELEASE.index("by_city:")].count("\n") + 2


def test_typed_declarations_match_the_models() -> None:
    """Otherwise run `python -m dprelease.schema.typed.generator`."""
    assert generator.STUB.read_text(encoding="utf-8") == generator.stub_text()
    assert all(len(line) <= 100 for line in generator.stub_text().splitlines())


def test_all_declared_files_are_copied(tmp_path: Path) -> None:
    """Schemas, files of values and large files; absolute paths stay, and nothing is left behind."""
    write(tmp_path)
    folder = tmp_path / "schemas"
    folder.mkdir()
    (folder / "cities.csv").write_text("city\nBern\nOslo\nRome\n")
    schema = SCHEMA.replace("values: [Bern, Oslo, Rome]", "values_from: cities.csv")
    (folder / "people.yaml").write_text(schema)
    pd.DataFrame({"city": ["Bern", "Oslo", "Rome"]}).to_parquet(tmp_path / "cities.parquet")
    release = dprelease.Release({**declared(), "tables": ["schemas/people.yaml"]}, folder=tmp_path)
    again = tmp_path / "again"
    release.to_yaml(again)
    names = {path.relative_to(again).as_posix() for path in again.rglob("*") if path.is_file()}
    assert names == {"release.yaml", "schemas/people.yaml", "schemas/cities.csv"}
    read = dprelease.read_release(again / "release.yaml")
    assert read.declaration.texts == release.declaration.texts
    with pytest.raises(OutputError, match="DP-OUTPUT-014"):
        read.to_yaml(again)
    large = SCHEMA.replace("values: [Bern, Oslo, Rome]", "values_from: cities.parquet")
    (tmp_path / "people.yaml").write_text(large)
    dprelease.read_release(tmp_path / "release.yaml").to_yaml(tmp_path / "large")
    copied = (tmp_path / "large" / "cities.parquet").read_bytes()
    assert copied == (tmp_path / "cities.parquet").read_bytes()
    outside = {**declared(), "tables": ["../people.yaml"]}
    with pytest.raises(OutputError, match="DP-OUTPUT-022"):
        dprelease.Release(outside, folder=folder).to_yaml(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    absolute = {**declared(), "tables": [tmp_path / "people.yaml"]}
    dprelease.Release(absolute).to_yaml(tmp_path / "new")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["release.yaml"]
    assert dprelease.check(tmp_path / "new" / "release.yaml").ok


def test_check_of_schema_checks_expressions(tmp_path: Path) -> None:
    write(tmp_path)
    text = SCHEMA + "  half: {type: number, lower: 0, upper: 60, expression: EXPRESSION}\n"
    for expression, code in {
        "agee / 2": "DP-WHERE-005",
        "age / ": "DP-WHERE-001",
        "half + age": "DP-DERIVE-002",
        "read_csv(age)": "DP-WHERE-004",
    }.items():
        (tmp_path / "people.yaml").write_text(text.replace("EXPRESSION", expression))
        (finding,) = dprelease.check(tmp_path / "people.yaml").findings
        assert finding.code == code
        assert (finding.place.file, finding.place.line) == ("people.yaml", 9)
    (tmp_path / "people.yaml").write_text(text.replace("EXPRESSION", "age / 2"))
    assert dprelease.check(tmp_path / "people.yaml").ok


def test_reprs_are_short_tables(tmp_path: Path) -> None:
    """Without fractions, and without whole documents."""
    path = release_with_ledger(tmp_path)
    release = dprelease.read_release(path)
    result = dprelease.run(release)
    published = dprelease.PublishedRelease(result.folder)
    plan = release.plan()
    shown = [release, plan, plan.guarantee, result, result.spent, published, published.verify(),
             dprelease.check(path), dprelease.check({}), dprelease.read_ledger(
             tmp_path / "ledger.sqlite"), *dprelease.read_ledger(tmp_path / "ledger.sqlite").balances, dprelease.Session(path.parent / "people.yaml",
             epsilon="9.8")]  # fmt: skip
    for one in shown:
        assert "Fraction(" not in repr(one)
        assert "Decimal(" not in repr(one)
        assert max(map(len, repr(one).splitlines())) < 160, repr(one)
        assert len(repr(one).splitlines()) < 30


@pytest.mark.parametrize(
    ("policy", "overwrite"), [("skip", True), ("skip", False), ("fail", False)]
)
def test_a_run_sees_that_another_one_has_published_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: Any, overwrite: bool
) -> None:
    """Of two runs that begin at once, the later one finds the release only under its lock."""
    path, ledger = release_with_ledger(tmp_path), tmp_path / "ledger.sqlite"
    before_the_lock = execute.refuse_missing_ledger
    others: list[dprelease.RunResult] = []

    def publish_meanwhile(*arguments: Any) -> None:
        monkeypatch.setattr(execute, "refuse_missing_ledger", before_the_lock)
        others.append(dprelease.run(path))
        before_the_lock(*arguments)

    monkeypatch.setattr(execute, "refuse_missing_ledger", publish_meanwhile)
    if policy == "skip":
        result = dprelease.run(path, if_published=policy, overwrite=overwrite)
        assert result == replace(others[0], published=False)
    else:
        with pytest.raises(OutputError, match="DP-OUTPUT-018") as refused:
            dprelease.run(path, if_published=policy, overwrite=overwrite)
        assert refused.value.exit_code == EXIT_PUBLISHED
    assert dprelease.read_ledger(ledger)["office/people"].releases == 1
