"""What pipelines need of commands: exit codes, JSON everywhere, several files, other sources."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from dprelease import cli
from dprelease.cli.reporting import AsJson
from tests.release.build import RELEASE, SCHEMA, write

ROOT = Path(__file__).parents[2]


def call(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(cli.app, list(map(str, words)))
    return done.exit_code, done.stdout, done.stderr


def commands(app: typer.Typer, way: str = "") -> Iterator[tuple[str, Callable[..., Any]]]:
    for info in app.registered_commands:
        assert info.callback is not None
        yield way + (info.name or info.callback.__name__), info.callback
    for group in app.registered_groups:
        assert group.typer_instance is not None
        yield from commands(group.typer_instance, f"{way}{group.name} ")


@pytest.mark.parametrize(("name", "command"), [*commands(cli.app)])
def test_every_command_has_json(name: str, command: Callable[..., Any]) -> None:
    parameters = inspect.signature(inspect.unwrap(command), eval_str=True).parameters
    assert parameters["as_json"].annotation == AsJson, name


def test_json_of_commands_that_write_files(tmp_path: Path) -> None:
    write(tmp_path)
    draft = tmp_path / "draft.yaml"
    shown = json.loads(call("init", tmp_path / "people.csv", "--json")[1])["schema"]
    written = json.loads(call("init", tmp_path / "people.csv", "--output", draft, "--json")[1])
    assert written == {"output": str(draft)}
    assert draft.read_text() == shown
    assert json.loads(call("schema", "release", "--json")[1])["type"] == "object"
    failed = json.loads(call("init", tmp_path / "nothing.csv", "--json")[1])
    assert failed["ok"] is False
    profile = tmp_path / "profile.json"
    answer = call("profile", tmp_path / "release.yaml", "--output", profile, "--json")[1]
    assert json.loads(answer) == {"output": str(profile)}


def test_check_takes_several_files_and_schemas(tmp_path: Path) -> None:
    good, bad = write(tmp_path / "good"), write(tmp_path / "bad")
    schema = tmp_path / "good" / "people.yaml"
    code, out, err = call("check", good, schema)
    assert code == 0
    assert out.splitlines() == [
        f"ok     {good}: 2 tables, 3 columns",
        f"ok     {schema}: a table schema with 4 columns",
    ]
    bad.write_text(RELEASE.replace("title", "titel"))
    (tmp_path / "bad" / "people.yaml").write_text(SCHEMA.replace("upper: 115", "upper: -1"))
    files = (good, bad, tmp_path / "bad" / "people.yaml", tmp_path / "nothing.yaml")
    code, out, err = call("check", *files)
    assert code == 2
    assert [line.split()[0] for line in out.splitlines()] == ["ok", "wrong", "wrong", "wrong"]
    assert f"{bad}:1" in err
    assert str(tmp_path / "bad" / "people.yaml") in err
    assert "DP-SCHEMA-001" in err
    assert str(tmp_path / "nothing.yaml") in err
    code, out, _ = call("check", *files, "--json")
    answer = json.loads(out)
    assert (code, answer["ok"]) == (2, False)
    assert [one["ok"] for one in answer["files"]] == [True, False, False, False]
    assert [one["file"] for one in answer["files"]] == list(map(str, files))
    assert call("check", schema)[1] == "people.yaml is in order: a table schema with 4 columns.\n"
    assert json.loads(call("check", schema, "--json")[1]) == {"ok": True, "columns": 4}


def test_exit_codes_of_published_and_wrong_releases(tmp_path: Path) -> None:
    path = write(tmp_path)
    assert call("run", path)[0] == 0
    code, _, err = call("run", path)
    assert code == 5
    assert "DP-OUTPUT-018" in err
    code, out, _ = call("run", path, "--if-published", "skip", "--json")
    answer = json.loads(out)
    assert (code, answer["published"]) == (0, False)
    assert (
        answer["digest"]
        == json.loads((tmp_path / "out/people/manifest.json").read_text())["digest"]
    )
    assert "Already published" in call("run", path, "--if-published", "skip")[1]
    assert call("run", path, "--if-published", "never")[0] == 2
    path.write_text(RELEASE.replace("title: People", "title: Persons"))
    assert call("run", path, "--if-published", "skip")[0] == 2
    code, out, _ = call("run", path, "--overwrite")
    assert code == 0
    assert "ledger" in out  # the cost of the replaced release counts nowhere
    code, out, _ = call("run", path, "--overwrite", "--output", tmp_path / "new")
    assert (code, "ledger" in out) == (0, False)


def test_source_option(tmp_path: Path) -> None:
    path = write(tmp_path)
    (tmp_path / "people.csv").rename(tmp_path / "test.csv")
    assert call("run", path)[0] == 2
    assert call("run", path, "--source", "people")[0] == 2
    assert call("run", path, "--source", "people=a.csv", "--source", "people=b.csv")[0] == 2
    assert call("run", path, "--source", f"people={tmp_path / 'test.parquet'}")[0] == 2
    code, out, _ = call("run", path, "--source", f"people={tmp_path / 'test.csv'}", "--json")
    assert code == 0
    assert call("verify", json.loads(out)["output"])[0] == 0


def test_pre_commit_hooks(tmp_path: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    command, *words = hook["entry"].split()
    assert command == "dprelease"
    path = write(tmp_path)
    assert call(*words, path, tmp_path / "people.yaml")[0] == 0
