"""The manual page of the formats: its code runs, and its names are those of the files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dprelease.exports import dp_event, sdmx_csv
from dprelease.exports.deployment_registry import FILE as REGISTRY
from dprelease.exports.sdmx.sdmx_cubes import CONF_STATUS, OBS_STATUS
from dprelease.exports.sdmx.structures import COMMON_CONCEPTS
from tests.exports import full_release

PAGE = (Path(__file__).parents[2] / "docs/formats-of-publication.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*COMMON_CONCEPTS, sdmx_csv.STRUCTURE, REGISTRY, dp_event.FILE])
def test_manual_lists_fields_and_files(name: str) -> None:
    assert f"{name}`" in PAGE


def test_manual_lists_statuses() -> None:
    (statuses,) = re.findall(r"^\| `OBS_STATUS` \|(.*)$", PAGE, re.MULTILINE)
    (confidential,) = re.findall(r"^\| `CONF_STATUS` \|(.*)$", PAGE, re.MULTILINE)
    assert re.findall(r"`([A-Z])`", statuses) == list(OBS_STATUS)
    assert re.findall(r"`([A-Z])`", confidential) == list(CONF_STATUS)


def test_code_for_dp_accounting_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = """\
title: Small
about: {languages: [en, de]}
tables: [people.yaml]
budget: {epsilon: 1, delta: 1e-8}
queries:
  total: {from: people, columns: {n: {count: "*", mechanism: gaussian}}}
output: out
"""
    release = full_release.publish_release(tmp_path, small)
    dp_event.EXPORT.write(release, tmp_path)
    (code,) = re.findall(r"## dp-accounting\n.*?```python\n(.*?)```", PAGE, re.DOTALL)
    *lines, last = code.strip().splitlines()
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec("\n".join(lines), names)
    assert eval(last, names) == pytest.approx(
        float(release.record.to_json()["guarantee"]["epsilon"]), rel=0.01
    )
