"""The command line, in text and JSON."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.mechanisms import registry
from dprelease.query.scan_planning import MOST_TABLES
from tests import processes
from tests.release.build import SCHEMA, write

ROOT = Path(__file__).parents[2]
RUN = CliRunner()


def call(*words: str) -> tuple[int, str, str]:
    done = RUN.invoke(cli.app, list(words))
    return done.exit_code, done.stdout, done.stderr


def test_check_plan_and_dry_run_need_no_data(tmp_path: Path) -> None:
    release = str(write(tmp_path))
    (tmp_path / "people.csv").unlink()
    assert call("check", release)[0] == 0
    code, out, _ = call("plan", release)
    assert code == 0
    assert "by_city.people" in out
    assert "discrete_gaussian" in out
    code, out, _ = call("run", release, "--dry-run")
    assert code == 0
    assert "row_number() OVER" in out
    assert call("run", release)[0] == 2
    assert not (tmp_path / "out" / "people").exists()


def test_json_output(tmp_path: Path) -> None:
    release = str(write(tmp_path))
    plan = json.loads(call("plan", release, "--json")[1])
    assert plan["guarantee"]["neighbours"] == "add_remove"
    assert [column["column"] for column in plan["columns"]] == ["people", "pay", "rows"]
    assert json.loads(call("check", release, "--json")[1])["ok"] is True
    published = json.loads(call("run", release, "--json")[1])
    assert published["files"] == ["all.parquet", "by_city.parquet", "manifest.json"]
    assert json.loads(call("verify", published["output"], "--json")[1])["ok"] is True
    names = [row["name"] for row in json.loads(call("mechanisms", "--json")[1])]
    assert names == [*registry.names(), *registry.selection_names()]
    assert "by_city" in json.loads(call("run", release, "--dry-run", "--json")[1])["sql"]
    failed = json.loads(call("run", release, "--json")[1])
    assert failed["findings"][0]["code"] == "DP-OUTPUT-018"
    assert failed["findings"][0]["state"] == "no row was read, no budget was spent"


def test_check_names_columns_without_label(tmp_path: Path) -> None:
    path = write(tmp_path)
    assert json.loads(call("check", str(path), "--json")[1])["without_label"] == []
    text = path.read_text()
    assert text.count("{sum: pay,") == 1
    path.write_text(text.replace("{sum: pay,", "{sum: pay, label: Pay,"))
    code, out, _ = call("check", str(path))
    assert code == 0
    assert "Without a label, although others have one: by_city.people, all.rows." in out


def test_exit_codes(tmp_path: Path) -> None:
    release = write(tmp_path)
    text = release.read_text()
    assert call("run", str(release), "--output", str(tmp_path / "o"))[0] == 0
    release.write_text(text.replace("title", "titel"))
    code, out, err = call("check", str(release))
    assert (code, out) == (2, "")
    assert "did you mean 'title'" in err
    assert "release.yaml:1" in err
    release.write_text(text.replace("epsilon: 1,", "epsilon: 0,"))
    assert call("plan", str(release))[0] == 3
    (tmp_path / "o" / "all.parquet").write_bytes(b"")
    assert call("verify", str(tmp_path / "o"))[0] == 4
    code, out, _ = call("verify", str(tmp_path / "o"), "--json")
    assert code == 4
    assert json.loads(out)["ok"] is False
    assert call("check", str(tmp_path / "nothing.yaml"))[0] == 2
    assert call("frobnicate")[0] == 2


def test_version_option(tmp_path: Path) -> None:
    """With any other option; a failing output is reported as usual."""
    told = f"dprelease {dprelease.__version__}\n"
    for words in (["--version"], ["--version", "check"], ["--version", "frobnicate"]):
        assert call(*words) == (0, told, "")
    command = [sys.executable, "-m", "dprelease", "--version"]
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    done = processes.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, told, "")
    assert "--version" in call("--help")[1]


def test_unexpected_failure_shows_its_type_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("SECRET-4711")

    monkeypatch.setattr("dprelease.release.runs.pipeline.publish", fails)
    code, out, err = call("run", str(write(tmp_path)))
    assert code == 1
    assert "ZeroDivisionError" in err
    assert "4711" not in out + err
    assert "DP-INTERNAL-001" in err


def test_progress_is_for_terminals_only(tmp_path: Path) -> None:
    release = write(tmp_path)
    command = [sys.executable, "-m", "dprelease", "run", str(release)]
    environment = dict(os.environ, PYTHONPATH=str(ROOT), TERM="xterm")
    piped = processes.run(
        [*command, "--output", str(tmp_path / "a")], env=environment, capture_output=True
    )
    assert (piped.returncode, piped.stderr) == (0, b"")
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as screen:
        run = [*command, "--output", str(tmp_path / "b")]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": theirs}
        with processes.started(run, env=environment, **quiet) as shown:
            os.close(theirs)
            seen = b""
            while select.select([screen], [], [], processes.PATIENCE)[0]:
                try:
                    piece = screen.read(4096)
                except OSError:  # the terminal is closed at its other end
                    break
                if not piece:
                    break
                seen += piece
            assert shown.wait(processes.PATIENCE) == 0
    assert b"\x1b[" in seen


def test_interrupt_leaves_no_files(tmp_path: Path) -> None:
    """SIGINT in the middle of a run: no output, no staging folder, a non-zero exit."""
    write(tmp_path)
    script = (
        "import os, signal, sys\n"
        # Whoever starts the tests in the background may have it ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from dprelease.release.runs import family_run\n"
        "real = family_run.write_pieces\n"
        "def stop(*a):\n    real(*a)\n    os.kill(os.getpid(), signal.SIGINT)\n"
        "family_run.write_pieces = stop\n"
        "from dprelease.cli import app\n"
        "app(['run', sys.argv[1]])\n"
    )
    done = processes.run(
        [sys.executable, "-c", script, str(tmp_path / "release.yaml")],
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
        capture_output=True,
    )
    assert done.returncode != 0
    assert list((tmp_path / "out").iterdir()) == []


def test_plan_shows_max_groups_as_slots(tmp_path: Path) -> None:
    release = write(tmp_path)
    (tmp_path / "people.yaml").write_text(SCHEMA.replace("max_groups: 2", "max_groups: 1"))
    fewer = json.loads(call("plan", str(release), "--json")[1])["columns"][0]["sensitivity"]
    assert fewer["slots"] == 1


ROWS_ASKED = """\
title: People by city
tables: [people.yaml]
budget: {epsilon: 1}
mechanism: discrete_laplace
queries:
  cities: {from: people, group_by: [city], columns: {n: {count: "*"}}}
  kinds: {from: people, columns: {n: {count_distinct: city}}}
  pay: {from: people, columns: {total: {sum: pay}}}
output: out/people
"""


def test_plan_names_rows_left_out_of_consistent_tables(tmp_path: Path) -> None:
    """Of a family, whose totals leave them out as well; not where every row has a cell."""
    path = write(tmp_path)
    schema = "\n".join(line for line in SCHEMA.splitlines() if "privacy_unit" not in line)
    family = "  f: {from: people, marginals: [[], [city]], columns: {n: {count: '*'}}, "
    start = ROWS_ASKED.partition("queries:\n")[0]
    for consistent, added, is_named in (
        (", consistent: true", "", True), (", consistent: true", ", unallocated: true", False),
        ("", "", False),
    ):  # fmt: skip
        lines = [
            f"  city: {{type: category, values: [Bern, Oslo]{added}}}" if "city:" in line else line
            for line in schema.splitlines()
        ]
        (tmp_path / "people.yaml").write_text("\n".join(lines) + "\n")
        query = family.removesuffix(", ") + consistent + "}\n"
        path.write_text(f"{start}queries:\n{query}output: out\n")
        code, out, _ = call("plan", str(path))
        assert code == 0, out
        assert ("in none of the consistent tables" in out) is is_named
        assert "city" in call("plan", str(path), "--explain")[1].replace("f_city", "")


def test_plan_explains_shared_scans(tmp_path: Path) -> None:
    path = write(tmp_path)
    rows = [line for line in SCHEMA.splitlines() if "privacy_unit" not in line]
    (tmp_path / "people.yaml").write_text("\n".join(rows))
    path.write_text(ROWS_ASKED)
    code, out, _ = call("plan", str(path), "--explain")
    assert code == 0
    assert "  one scan    cities, pay\n" in out
    assert "joint table of city: 4 cells, for cities, pay" in out
    assert "  by itself   kinds: distinct values don't add up" in out
    reads = json.loads(call("plan", str(path), "--explain", "--json")[1])["reads"]
    assert [one["tables"] for one in reads] == [["cities", "pay"], ["kinds"]]
    assert reads[0]["joint_tables"] == [{"keys": ["city"], "cells": 4, "tables": ["cities", "pay"]}]
    assert "reads" not in json.loads(call("plan", str(path), "--json")[1])
    (tmp_path / "people.yaml").write_text(SCHEMA)
    out = call("plan", str(path), "--explain")[1]
    once = "  one scan    cities, kinds, pay: the rows are read, and ids numbered, only once if"
    assert once in out
    path.write_text(ROWS_ASKED + "engine: spark\n")
    assert "by itself" not in out
    assert call("plan", str(path), "--explain")[1].count("this engine reads each table") == 3


def test_plan_distinguishes_joint_tables(tmp_path: Path) -> None:
    """By the condition of each, and the columns of a table that are read by themselves."""
    path = write(tmp_path)
    rows = [line for line in SCHEMA.splitlines() if "privacy_unit" not in line]
    (tmp_path / "people.yaml").write_text("\n".join(rows))
    apart = "".join(
        f"  above_{i}: {{from: people, group_by: [city], where: pay > {i}, "
        "columns: {n: {count: '*'}}}\n"
        for i in (1, 2)
    )
    both = "  both: {from: people, columns: {n: {count_distinct: city}, m: {median: pay}}}\n"
    both += "  half: {from: people, group_by: [city], columns: {m: {median: pay}}}\n"
    path.write_text(ROWS_ASKED.replace("output:", f"{apart}{both}output:"))
    out = call("plan", str(path), "--explain")[1]
    for i in (1, 2):
        assert f"joint table of city, where pay > {i}: 3 cells, for above_{i}\n" in out
    assert "joint table of city, by values of pay: 4 cells, for half, both\n" in out
    assert "by itself   both, the rest of its columns: distinct values don't add up\n" in out


def test_plan_shows_the_limit_of_a_shared_scan(tmp_path: Path) -> None:
    path, most = write(tmp_path), MOST_TABLES + 1
    asked = "  q{i}: {{from: people, columns: {{n: {{count: '*'}}}}}}\n"
    queries = "".join(asked.format(i=i) for i in range(most))
    path.write_text(ROWS_ASKED.partition("queries:\n")[0] + f"queries:\n{queries}output: out\n")
    out = call("plan", str(path), "--explain")[1]
    assert f"if they fit in memory, for at most {MOST_TABLES} tables, then limited" in " ".join(
        out.split()
    )
    assert (
        f"  by itself   q{most - 1}: {MOST_TABLES} other tables already share a scan of its rows"
        in out
    )


def test_verify_names_every_uncharged_release(tmp_path: Path) -> None:
    ledger, there = str(tmp_path / "ledger.sqlite"), tmp_path / "out" / "people"
    opened = ["--table", "people", "--owner", "office", "--epsilon", "1"]
    assert call("ledger", "init", ledger, *opened)[0] == 0
    assert call("run", str(write(tmp_path)))[0] == 0
    folders = [str(tmp_path / "none"), str(there), str(tmp_path)]
    code, out, err = call("ledger", "check", ledger, *folders)
    assert code == 4
    for folder, finding in zip(folders, ("001", "010", "001"), strict=True):
        assert f"{Path(folder) / 'manifest.json'}\nDP-VERIFY-{finding}" in out + err
    found = json.loads(call("ledger", "check", ledger, *folders, "--json")[1])["findings"]
    assert [one["file"] for one in found] == [str(Path(f) / "manifest.json") for f in folders]


def test_init_does_not_overwrite_files(tmp_path: Path) -> None:
    write(tmp_path)
    there = tmp_path / "there.yaml"
    there.write_text("mine")
    code, out, err = call("init", str(tmp_path / "people.csv"), "--output", str(there))
    assert code == 2
    assert there.read_text() == "mine"
    assert "DP-OUTPUT-014" in out + err
    assert "--overwrite" not in out + err


def test_a_value_that_is_no_choice_is_named_without_the_class_of_error() -> None:
    done = RUN.invoke(cli.app, ["schema", "tables"])
    assert (done.exit_code, "'tables' is not one of" in done.output) == (2, True)
    assert "Value error" not in done.output
