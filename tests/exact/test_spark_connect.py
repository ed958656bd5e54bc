"""Spark Connect: a server as the driver gives the same results as a driver in this process."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.errors import DataError
from dprelease.exact.spark import spark_engine
from dprelease.exact.spark.sessions.spark_session import (
    CONNECT_VARIABLE,
    ExposedWarning,
    SparkSettings,
)
from dprelease.exact.spark.spark_engine import SparkEngine
from dprelease.release.run_options import with_engine
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from tests import processes
from tests.exact import test_reference
from tests.exact.build import ask, declare
from tests.exact.spark import (
    CONFIG,
    ConstantNoise,
    assert_engines_agree,
    of_source,
    some_rows,
    some_table,
)
from tests.release import build as release_build
from tests.replay import Keyed

ROOT = Path(__file__).parents[2]
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
    pytest.mark.skipif(find_spec("grpc_status") is None, reason="Spark Connect needs gRPC"),
    pytest.mark.filterwarnings("ignore"),  # of pyspark
]


@pytest.fixture(scope="module")
def settings() -> Iterator[SparkSettings]:
    """Start a server of two cores; yield what reaches it."""
    import pyspark

    home = Path(pyspark.__file__).parent
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    bound = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    options = [f"--conf={name}={value}" for name, value in (CONFIG | bound).items()]
    command = [home / "bin/spark-submit", "--master=local[2]", *options, f"--class={SERVER}"]
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    changed = {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}
    with processes.started(
        [*command, "spark-internal"],
        env=os.environ | changed,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        _wait(port, server)
        yield SparkSettings(f"sc://127.0.0.1:{port}")


def _wait(port: int, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + processes.PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), processes.PATIENCE).close()
        except OSError:
            if time.monotonic() > end or server.poll() is not None:
                raise
            time.sleep(0.2)
        else:
            return


@pytest.mark.audit
@pytest.mark.parametrize("unit", test_reference.UNITS[:2], ids=str)
def test_frames_and_files_agree_on_spark_connect(
    unit: dict[str, Any], settings: SparkSettings, tmp_path: Path
) -> None:
    query = test_reference.build(unit, test_reference.KEYS[1], test_reference.MEASURES)
    assert_engines_agree([query], test_reference.as_table(some_rows(3, 70)), settings=settings)
    pq.write_table(some_table(300), tmp_path / "t.parquet")
    assert_engines_agree([of_source(f"{tmp_path}/t.parquet", bool(unit))], settings=settings)


@pytest.mark.audit
def test_uris_and_catalogue_tables_on_spark_connect(
    settings: SparkSettings, tmp_path: Path
) -> None:
    from pyspark.sql import SparkSession

    pq.write_table(pa.table({"v": [1, 2, 3]}), tmp_path / "t.parquet")
    uri = f"file://{tmp_path}/t.parquet"
    spark = SparkSession.builder.remote(settings.master).create()
    assert SparkSession.getActiveSession() is spark  # so that of the engine is made from it
    try:
        spark.sql(f"CREATE TABLE numbers USING parquet LOCATION '{uri}'").collect()
        zone = spark.conf.get("spark.sql.session.timeZone")
        for source in ({"table": "numbers"}, uri):
            column = {"type": "integer", "lower": 0, "upper": 9}
            query = ask(declare({"v": column}, source=source), {"total": {"sum": "v"}})
            with SparkEngine.open(query.declared, settings=settings) as engine:
                assert engine.run(query).vector("total").tolist() == [6]
                pq.write_table(pa.table({"v": [1, 2, 3]}), tmp_path / "t.parquet")
                with pytest.raises(DataError, match=r"DP-DATA-00[67]"):
                    engine.run(query)
        pq.write_table(pa.table({"v": pa.array([1], pa.timestamp("ns"))}), tmp_path / "t.parquet")
        with pytest.raises(DataError, match="DP-DATA-001"), SparkEngine.open(query.declared):
            pass
        # The caller's own session goes on, as it was.
        assert spark.conf.get("spark.sql.session.timeZone") == zone
        assert spark.range(3).count() == 3
    finally:
        spark.stop()
        os.environ.pop(CONNECT_VARIABLE)


@pytest.mark.audit
def test_spark_connect_adds_noise_in_this_process(
    settings: SparkSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Staging folders are only for executors whose files this process can remove."""
    monkeypatch.setattr(spark_engine, "MANY_CELLS", 1)
    query = ask(declare({"v": {"type": "integer"}}), {"n": {"count": "v"}})
    staged = SparkSettings(settings.master, staging=f"file://{tmp_path}")
    with SparkEngine.open(query.declared, pa.table({"v": [1]}), settings=staged) as engine:
        assert engine.noisy_vectors(query, ConstantNoise(tmp_path)) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.audit
def test_spark_connect_executors_process_published_data(settings: SparkSettings) -> None:
    query = ask(declare({"v": {"type": "integer"}}), {"n": {"count": "v"}})
    tasks = [np.arange(i, i + 5) for i in range(20)]
    with SparkEngine.open(query.declared, pa.table({"v": [1]}), settings=settings) as engine:
        made = list(engine.spread(np.square, iter(tasks)))
    assert [one.tolist() for one in made] == [(task * task).tolist() for task in tasks]


@pytest.mark.audit
def test_release_on_spark_connect_is_the_same(settings: SparkSettings, tmp_path: Path) -> None:
    """With the same noise, both engines publish the same bytes."""
    file = release_build.write(tmp_path)
    file.write_text(file.read_text() + f"spark: {{master: '{settings.master}'}}\n")
    declaration = read_declaration(file)
    one = run(declaration, bits=Keyed("noise"), output=tmp_path / "one")
    with pytest.warns(ExposedWarning, match="in the clear") as told:  # the server's own files
        two = run(with_engine(declaration, "spark"), bits=Keyed("noise"), output=tmp_path / "two")
    assert "web UI" not in str(told[0].message)
    for path in one.iterdir():
        assert path.read_bytes() == (two / path.name).read_bytes()
    assert CONNECT_VARIABLE not in os.environ
