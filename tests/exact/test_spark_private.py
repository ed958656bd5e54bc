"""Spark started by dprelease exposes no port and no readable file, and leaves nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from dprelease import cli
from dprelease.errors import DataError
from dprelease.exact.spark.sessions import private
from dprelease.exact.spark.sessions.private import (
    FOLDERS_TEXT,
    LOCAL_DIR_SETTING,
    LOCAL_DIRS_VARIABLE,
    PRIVATE_SETTINGS,
    SCRATCH,
    SERVER_TEXT,
    exposure_texts,
    private_settings,
)
from dprelease.exact.spark.sessions.spark_session import SparkSettings, open_session
from dprelease.exact.spark.spark_engine import SparkEngine
from dprelease.query.resolve import Query
from tests import processes
from tests.exact.build import ask, declare
from tests.exact.spark import CONFIG
from tests.release import build as release_build

ROOT = Path(__file__).parents[2]
CANARY = "canary-4711-"
QUICK = {
    "spark.driver.extraJavaOptions": CONFIG["spark.driver.extraJavaOptions"],
    "spark.sql.shuffle.partitions": "3",
    "spark.shuffle.compress": "false",  # so that what is in the clear is seen to be
    "spark.shuffle.spill.compress": "false",
    "spark.sql.warehouse.dir": CONFIG["spark.sql.warehouse.dir"],
}
OPEN = {
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    "spark.io.encryption.enabled": "false",
    "spark.driver.host": "127.0.0.1",
}
needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
needs_proc = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="ports are read there")
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # of pyspark
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture
def no_java() -> Iterator[None]:
    """Start without a Java of earlier tests, and leave none."""
    private.end_java()
    yield
    private.end_java()


def by_person() -> Query:
    columns = {
        "id": {"type": "text"},
        "k": {"type": "category", "values": ["a", "b"]},
        "v": {"type": "integer", "lower": 0, "upper": 9},
    }
    unit = {"id": "id", "max_groups": 2, "max_rows_per_group": 2}
    return ask(declare(columns, privacy_unit=unit), {"total": {"sum": "v"}}, ["k"])


def people() -> pa.Table:
    size = range(400)
    ids = [f"{CANARY}{i}" for i in size]
    return pa.table({"id": ids, "k": ["ab"[i % 2] for i in size], "v": [i % 10 for i in size]})


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def files_with_canary(folder: Path) -> list[Path]:
    """Return files that hold the canary, in the bytes of a text or of its UTF-16."""
    words = CANARY.encode(), CANARY.encode("utf-16-le")
    return [path for path in files(folder) if any(word in path.read_bytes() for word in words)]


def readable_by_others(folder: Path) -> list[Path]:
    """Return files below a folder that others may come to, and read."""

    def lets(path: Path, bit: int) -> bool:
        return bool(path.stat().st_mode & bit)

    found = []
    for path in files(folder):
        above = [one for one in path.parents if one.is_relative_to(folder) and one != folder]
        if lets(path, stat.S_IROTH) and all(lets(one, stat.S_IXOTH) for one in above):
            found.append(path)
    return found


def listening_addresses(process: int) -> list[str]:
    """Return local addresses, in the hexadecimal of /proc, at which a process listens."""
    held = set()
    for number in Path(f"/proc/{process}/fd").iterdir():
        try:
            held.add(os.readlink(number))
        except FileNotFoundError:
            continue
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in held:
                found.append(words[1].split(":")[0])
    return found


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


@needs_java
@needs_proc
def test_spark_run_exposes_nothing(
    no_java: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No port except on loopback, no web page, no id in files, no files for others or afterwards."""
    monkeypatch.setenv(LOCAL_DIRS_VARIABLE, str(tmp_path / "of the machine"))
    query = by_person()
    with SparkEngine.open(
        query.declared, people(), settings=SparkSettings("local[2]", config=QUICK)
    ) as engine:
        assert engine.run(query).vector("total").sum() == 1800
        (folder,) = (tmp_path / "of the machine").iterdir()
        told = engine._spark.conf
        assert {name: told.get(name) for name in PRIVATE_SETTINGS} == PRIVATE_SETTINGS
        assert told.get(LOCAL_DIR_SETTING) == str(folder)
        context = engine._spark.sparkContext
        assert context.uiWebUrl is None
        assert set(listening_addresses(context._gateway.proc.pid)) <= LOOPBACK
        assert [path for path in files(folder) if path.suffix == ".data"]
        assert files_with_canary(tmp_path) == []
        assert readable_by_others(tmp_path) == []
        machine = context._gateway.proc
    assert machine.poll() is not None
    assert list((tmp_path / "of the machine").iterdir()) == []
    assert os.environ[LOCAL_DIRS_VARIABLE] == str(tmp_path / "of the machine")


@pytest.mark.audit
@needs_java
@needs_proc
def test_declared_exposure_is_respected(no_java: None, tmp_path: Path) -> None:
    """The release may declare it; then these tests see it. A running Java stays."""
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    first, second = tmp_path / "first", tmp_path / "second"
    with open_session(SparkSettings("local[1]", config=QUICK | {LOCAL_DIR_SETTING: str(first)})):
        assert list(first.iterdir())
    query = by_person()
    settings = SparkSettings("local[2]", config=QUICK | OPEN | {LOCAL_DIR_SETTING: str(second)})
    with SparkEngine.open(query.declared, people(), settings=settings) as engine:
        engine.run(query)
        assert engine._spark.sparkContext.uiWebUrl
        assert files_with_canary(second)
        assert readable_by_others(tmp_path) == []
        (folder,) = second.iterdir()
        folder.chmod(0o755)
        assert readable_by_others(tmp_path)
        assert set(listening_addresses(SparkContext._gateway.proc.pid)) - LOOPBACK
    assert list(first.iterdir()) == []  # Java remembers folders of its first session
    assert list(second.iterdir()) == []
    assert SparkContext._gateway.proc.poll() is None


KILLED = """
import sys
from pathlib import Path
from tests.exact import test_spark_private as tests
from dprelease.exact.spark.sessions.private import LOCAL_DIR

query, config = tests.by_person(), tests.QUICK | {LOCAL_DIR: sys.argv[1]}
settings = tests.Settings("local[2]", config=config)
with tests.SparkEngine.open(query.declared, tests.people(), settings=settings) as engine:
    engine.run(query)
    print(engine._spark.sparkContext._gateway.proc.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.audit
@needs_java
def test_files_of_a_killed_spark_run_are_encrypted(tmp_path: Path) -> None:
    """Its files are encrypted, unreadable for others, and removed by the next run."""
    words = [sys.executable, "-W", "ignore", "-c", KILLED, str(tmp_path)]
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with processes.started(
        words, env=os.environ | {"PYTHONPATH": path}, stderr=subprocess.DEVNULL, text=True, **pipes
    ) as run:
        java = int(processes.first_line(run))
        os.kill(java, signal.SIGKILL)  # else it would tidy up
        run.kill()
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(SCRATCH)
    assert stat.S_IMODE(left.stat().st_mode) == 0o700
    assert [path for path in files(left) if path.suffix == ".data"]
    assert files_with_canary(left) == []
    time.sleep(0.1)
    with private_settings("local[2]", {LOCAL_DIR_SETTING: str(tmp_path)}) as found:
        assert not left.exists()
        assert list(tmp_path.iterdir()) == [Path(found[LOCAL_DIR_SETTING])]
    assert list(tmp_path.iterdir()) == []


def test_order_of_spark_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The release has precedence over the environment, and that over Spark's file."""
    conf, places = tmp_path / "conf", [str(tmp_path / name) for name in "abcd"]
    conf.mkdir()
    monkeypatch.setenv("SPARK_CONF_DIR", str(conf))
    monkeypatch.delenv(LOCAL_DIRS_VARIABLE, raising=False)

    def parents(config: dict[str, str]) -> list[str]:
        with private_settings("local[2]", config) as found:
            folders = found[LOCAL_DIR_SETTING].split(",")
            assert os.environ[LOCAL_DIRS_VARIABLE] == found[LOCAL_DIR_SETTING]
            assert all(stat.S_IMODE(Path(one).stat().st_mode) == 0o700 for one in folders)
        assert not any(Path(one).exists() for one in folders)
        return [str(Path(one).parent) for one in folders]

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert parents({}) == [str(tmp_path)]
    (conf / "spark-defaults.conf").write_text(
        f"# words\n{LOCAL_DIR_SETTING}   {places[2]}\nspark.x=1\n"
    )
    assert parents({}) == [places[2]]
    monkeypatch.setenv(LOCAL_DIRS_VARIABLE, f"{places[1]},{places[3]}")
    assert parents({}) == [places[1], places[3]]
    assert parents({LOCAL_DIR_SETTING: places[0]}) == [places[0]]
    assert os.environ[LOCAL_DIRS_VARIABLE] == f"{places[1]},{places[3]}"
    (tmp_path / "file").touch()
    with (
        pytest.raises(DataError, match="DP-SPARK-003"),
        private_settings(None, {LOCAL_DIR_SETTING: f"{tmp_path}/file/x"}),
    ):
        pass


@pytest.mark.parametrize(
    ("master", "name", "value", "expected"),
    [
        (None, "spark.ui.enabled", None, "false"),
        ("local", "spark.driver.bindAddress", None, "127.0.0.1"),
        ("local[*]", "spark.authenticate", None, "true"),
        ("yarn", "spark.authenticate", None, None),
        ("spark://host:7077", "spark.driver.bindAddress", None, None),
        ("local-cluster[2,1,1024]", "spark.driver.host", None, None),
        ("spark://host:7077", "spark.io.encryption.enabled", None, "true"),
        ("k8s://https://host", "spark.eventLog.enabled", None, "false"),
        ("yarn", "spark.ui.enabled", "true", "true"),
        ("local[2]", "spark.io.encryption.enabled", "false", "false"),
    ],
)
def test_spark_settings_depend_on_the_master(
    master: str | None, name: str, value: str | None, expected: str | None
) -> None:
    with private_settings(master, {} if value is None else {name: value}) as found:
        assert found.get(name) == expected


SECURE = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}


@pytest.mark.parametrize(
    ("master", "config", "words"),
    [
        (None, {}, []),
        ("local[4]", {"spark.ui.enabled": "false"}, []),
        ("local[4]", {"spark.ui.enabled": "TRUE"}, ["spark.ui.enabled"]),
        ("local[4]", {"spark.io.encryption.enabled": "false"}, ["spark.io.encryption"]),
        ("local", {"spark.eventLog.enabled": "true"}, ["spark.eventLog"]),
        ("local", {"spark.extraListeners": "org.example.Ear"}, ["spark.extraListeners"]),
        ("yarn", SECURE, [FOLDERS_TEXT]),
        ("yarn", {}, ["spark.authenticate", "spark.network.crypto", FOLDERS_TEXT]),
        ("spark://h:7077", {"spark.authenticate": "true"}, ["spark.network.crypto", FOLDERS_TEXT]),
        (
            "k8s://h",
            {"spark.authenticate": "true", "spark.ssl.rpc.enabled": "true"},
            [FOLDERS_TEXT],
        ),
        ("sc://host", {"spark.ui.enabled": "false"}, [SERVER_TEXT]),
    ],
    ids=str,
)
def test_exposed_settings_are_listed(
    master: str | None,
    config: dict[str, str],
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    found = exposure_texts(master, config)
    assert len(found) == len(words)
    assert all(word in line for word, line in zip(words, found, strict=True))


def test_spark_defaults_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    text = "spark.master\tspark://h:1\nspark.ui.enabled true\nspark.plugins: a.B\nspark.authenticate=true\n"
    (tmp_path / "spark-defaults.conf").write_text(text)
    assert [line.split()[0] for line in exposure_texts(None, {})] == [
        "spark.plugins",
        "rows,",
        "executors",
    ]
    assert exposure_texts("local", {"spark.plugins": ""}) == []


def test_check_reports_exposed_settings(tmp_path: Path) -> None:
    file = release_build.write(tmp_path)
    text = file.read_text()

    def told(more: str) -> list[str]:
        file.write_text(text + more)
        done = CliRunner().invoke(cli.app, ["check", str(file), "--json"])
        assert done.exit_code == 0
        found: list[str] = json.loads(done.stdout)["left_open"]
        return found

    assert told("") == []
    assert told("engine: spark\n") == []
    assert told("engine: spark\nspark: {master: 'sc://host'}\n") == [SERVER_TEXT]
    (line,) = told("engine: spark\nspark: {config: {spark.ui.enabled: 'true'}}\n")
    assert "without a password" in line
