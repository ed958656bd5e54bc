"""The examples of steps in pipelines, called as dbt, Airflow and Dagster call them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import dprelease
from dprelease.errors import DpReleaseError
from examples.pipelines import airflow_task, dagster_asset, dbt_model

SCHEMA = """\
table: people
source: {source}
columns:
  state: {{type: category, values: [ME, NH, VT]}}
"""
RELEASE = """\
title: People by state
tables: [people.yaml]
budget: {epsilon: 1}
queries:
  by_state: {from: people, group_by: [state], columns: {people: {count: "*"}}}
output: out/by_state
"""
PEOPLE = pd.DataFrame({"state": ["ME", "VT", "VT"]})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.yaml").write_text(SCHEMA.format(source="{frame: people}"))
    (tmp_path / "release.yaml").write_text(RELEASE)
    return tmp_path


class Config:
    """dbt's `config`, which is called, and asked for values of the project."""

    def __call__(self, **options: str) -> None:
        self.options = options

    def get(self, name: str) -> str:
        assert name == "release_file"
        return "release.yaml"


class Dbt:
    """What dbt passes to a model: its references are relations of DuckDB."""

    config = Config()

    def ref(self, name: str) -> duckdb.DuckDBPyRelation:
        assert name == "people"
        return duckdb.from_df(PEOPLE)


def test_dbt_model() -> None:
    first = dbt_model.model(Dbt(), None)
    assert list(first["state"]) == ["ME", "NH", "VT"]
    assert dbt_model.model(Dbt(), None).equals(first)
    assert Dbt.config.options == {"materialized": "table"}


def test_airflow_tasks(folder: Path) -> None:
    (folder / "people.yaml").write_text(SCHEMA.format(source="people-${month}.csv"))
    text = RELEASE.replace("out/by_state", "out/${month}") + "variables: {month: text}\n"
    (folder / "release.yaml").write_text(text)
    PEOPLE.to_csv(folder / "people-2026-01.csv", index=False)
    published = airflow_task.publish_release("release.yaml", "2026-01-31")
    assert json.loads(json.dumps(published)) == published
    assert published["published"]
    again = airflow_task.publish_release("release.yaml", "2026-01-31")
    assert again == {**published, "published": False}
    assert airflow_task.verify_release(published) == published["digest"]
    (Path(published["output"]) / "by_state.parquet").write_bytes(b"")
    with pytest.raises(DpReleaseError, match="DP-VERIFY-004"):
        airflow_task.verify_release(published)
    with pytest.raises(DpReleaseError):  # no file of that month
        airflow_task.publish_release("release.yaml", "2026-02-28")


class Context:
    """Dagster's context of an asset."""

    def add_output_metadata(self, metadata: dict[str, Any]) -> None:
        self.metadata = metadata


def test_dagster_asset() -> None:
    context = Context()
    found = dagster_asset.published_by_state(context, PEOPLE)
    assert list(found["state"]) == ["ME", "NH", "VT"]
    assert 0.999 < context.metadata["epsilon"] <= 1
    assert context.metadata["newly_published"]
    assert dprelease.verify(context.metadata["folder"]).ok
    assert dagster_asset.published_by_state(context, PEOPLE).equals(found)
    assert not context.metadata["newly_published"]
