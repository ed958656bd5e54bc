"""Sources in a store are read as the same files on this machine are, from one private copy."""

from __future__ import annotations

import http.server
import io
import json
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from dprelease.cli import app
from dprelease.errors import DataError, DpReleaseError, State
from dprelease.exact.engines import open_duckdb
from dprelease.exact.settings import SCRATCH
from dprelease.exact.spark import spark_engine
from dprelease.ledger.ledger import Ledger
from dprelease.planning.declaration_findings import load_declaration
from dprelease.query.unread import unsupported_by_spark_error
from dprelease.release.api import read_release
from dprelease.system.stores.objects import Store, StoredObject
from tests.exact.stores.server import KEY, SECRET, Bucket, running_bucket, use
from tests.exact.test_lake_tables import PLACES, TABLES
from tests.exact.test_sources import EXPECTED, FRAME, query_of, vectors

PARTS = FRAME.iloc[:2], FRAME.iloc[2:]


@pytest.fixture(scope="module")
def server() -> Iterator[Bucket]:
    with running_bucket() as bucket:
        yield bucket


@pytest.fixture
def bucket(server: Bucket, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    use(server, monkeypatch)
    server.clear()
    return server


def file_bytes(frame: pd.DataFrame, ending: str) -> bytes:
    """Return the bytes of a file with the rows of a frame."""
    file = io.BytesIO()
    plain = frame.drop(columns="spare").assign(d=frame.d.astype(str))
    if ending == "parquet":
        frame.to_parquet(file)
    elif ending.startswith("csv"):
        plain.to_csv(file, index=False, compression="gzip" if ending.endswith("gz") else None)
    else:
        plain.to_json(file, orient="records", lines=True)
    return file.getvalue()


@pytest.mark.each
@pytest.mark.parametrize("ending", ["parquet", "csv", "csv.gz", "jsonl"])
@pytest.mark.parametrize("path", ["one", "*", "**/*", "[p]art-?"])
def test_objects_give_the_same_vectors_as_files(
    path: str, ending: str, bucket: Bucket, tmp_path: Path
) -> None:
    if path == "one":
        bucket.put(f"d/one.{ending}", file_bytes(FRAME, ending))
    for i, part in enumerate(PARTS if path != "one" else ()):
        bucket.put(f"d/part-{i}.{ending}", file_bytes(part, ending))
    assert vectors(query_of(bucket.uri(f"d/{path}.{ending}"), tmp_path)) == EXPECTED


def test_names_that_begin_with_underscore_are_not_read(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("d/state=NY/a.parquet", file_bytes(PARTS[0], "parquet"))
    bucket.put("d/b c é%41+#.parquet", file_bytes(PARTS[1], "parquet"))
    bucket.put("d/_old/c.parquet", file_bytes(FRAME, "parquet"))
    bucket.put("d/.hidden.parquet", file_bytes(FRAME, "parquet"))
    bucket.put("data/other.parquet", file_bytes(FRAME, "parquet"))
    bucket.put("d/notes.txt", b"no table")
    assert vectors(query_of(bucket.uri("d/"), tmp_path)) == EXPECTED


def test_large_objects_are_read_completely(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dprelease.system.stores.objects.CHUNK_BYTES", 1000)
    bucket.put("t.parquet", file_bytes(FRAME, "parquet"))
    assert len(bucket.get("t.parquet")) > 3000
    assert vectors(query_of(bucket.uri("t.parquet"), tmp_path)) == EXPECTED


def message(path: str, folder: Path, code: str) -> str:
    query = query_of(path, folder)
    with pytest.raises(DataError, match=code) as caught, open_duckdb(query.declared, None):
        pass
    chain = f"{caught.value}{caught.value.__cause__}{caught.value.__context__}"
    assert SECRET not in chain
    assert KEY not in chain
    return str(caught.value)


@pytest.mark.share(0.3, by="kind")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", TABLES)
def test_files_of_a_lake_are_refused(kind: str, place: str, bucket: Bucket, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    TABLES[kind](root)
    (root / place).mkdir(parents=True, exist_ok=True)
    (root / place / "p.parquet").write_bytes(file_bytes(FRAME, "parquet"))
    for file in root.rglob("*"):
        if file.is_file():  # an empty object
            bucket.put(
                f"lake/folder/{file.relative_to(root).as_posix()}", file.read_bytes() or b"x"
            )
    one = Path("lake/folder") / place / "p.parquet"
    for path in (one.as_posix(), "lake/folder/**/*.parquet", "lake/folder/", "lake/"):
        assert f"of the format {kind.split()[0]} (" in message(
            bucket.uri(path), tmp_path, "DP-DATA-024"
        )


JOBS = {
    "running": "d/_temporary/0/x",
    "started": "d/_started_1",
    "stream": "d/_spark_metadata/0",
}


@pytest.mark.parametrize("mark", JOBS.values(), ids=JOBS)
def test_unfinished_job_output_in_a_store_is_refused(
    mark: str, bucket: Bucket, tmp_path: Path
) -> None:
    bucket.put("d/p.parquet", file_bytes(FRAME, "parquet"))
    bucket.put(mark, b"x")
    for path in ("d/", "d/p.parquet", "d/*.parquet"):
        message(bucket.uri(path), tmp_path, "DP-DATA-024")


def test_pattern_that_matches_an_underscore_name_is_refused(bucket: Bucket, tmp_path: Path) -> None:
    for name in ("a", "_b"):
        bucket.put(f"d/{name}.parquet", file_bytes(FRAME, "parquet"))
    assert "_b.parquet" in message(bucket.uri("d/*.parquet"), tmp_path, "DP-DATA-024")
    bucket.delete("d/a.parquet")
    assert vectors(query_of(bucket.uri("d/_*.parquet"), tmp_path)) == EXPECTED


def test_store_errors_contain_no_credentials(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message(bucket.uri("d/t.parquet"), tmp_path, "DP-DATA-001")
    message(bucket.uri("d/*.parquet"), tmp_path, "DP-DATA-001")
    message("s3://no-such-bucket/t.parquet", tmp_path, "DP-DATA-001")
    bucket.put("t.parquet", b"PAR1 damaged")
    message(bucket.uri("t.parquet"), tmp_path, "DP-DATA-001")
    monkeypatch.setattr("dprelease.system.stores.objects.MOST_RETRIES", 0)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert "can't be reached" in message(bucket.uri("t.parquet"), tmp_path, "DP-DATA-024")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{KEY}:{SECRET}@127.0.0.1:1")
    assert "can't be reached" in message(bucket.uri("t.parquet"), tmp_path, "DP-DATA-024")
    monkeypatch.setenv("AWS_ENDPOINT_URL", SECRET)
    message(bucket.uri("t.parquet"), tmp_path, "DP-DATA-024")


def test_refused_access_is_reported(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from obstore import exceptions

    def refuse(*args: object, **options: object) -> None:
        raise exceptions.PermissionDeniedError(f"no access for {KEY}")

    monkeypatch.setattr("obstore.head", refuse)
    assert "refused access" in message(bucket.uri("t.parquet"), tmp_path, "DP-DATA-024")


def test_missing_package_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "dprelease[stores]" in message("s3://bucket/t.parquet", tmp_path, "DP-DATA-025")


RELEASE: dict[str, Any] = {
    "title": "People", "tables": ["t.yaml", "u.yaml"], "budget": {"epsilon": 100}, "output": "out",
    "queries": {
        "q": {"from": "t", "group_by": ["k"], "columns": {"rows": {"count": "*"}}},
        "r": {"from": "u", "group_by": ["k"], "columns": {"rows": {"count": "*"}}},
    },
}  # fmt: skip


def release(folder: Path, path: str, **more: object) -> Path:
    """Write a release with two tables over the same source, each with its own engine."""
    columns = {"k": {"type": "category", "values": ["a", "b"]}}
    for name in ("t", "u"):
        declared = {"table": name, "owner": "o", "source": path, "columns": columns}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(declared))
    (folder / "release.yaml").write_text(yaml.safe_dump({**RELEASE, **more}))
    return folder / "release.yaml"


def write_while_copied(
    monkeypatch: pytest.MonkeyPatch, change: Any, copied: list[str] | None = None
) -> None:
    """Call a function after each object that is copied."""
    copy = Store.copy

    def copy_and_change(self: Store, one: StoredObject, target: Any) -> None:
        copy(self, one, target)
        if copied is not None:
            copied.append(one.key)
        change(target.name)

    monkeypatch.setattr(Store, "copy", copy_and_change)


def test_objects_are_copied_once_for_a_run(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i, part in enumerate(PARTS):
        bucket.put(f"d/{i}.parquet", file_bytes(part, "parquet"))
    copied: list[str] = []
    modes: set[int] = set()

    def note_modes(name: int | str) -> None:
        status = os.fstat(name) if isinstance(name, int) else os.stat(name)
        modes.add(stat.S_IMODE(status.st_mode))

    write_while_copied(monkeypatch, note_modes, copied)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    folder = {"temp_directory": "scratch"}
    read_release(release(tmp_path, bucket.uri("d/"), duckdb=folder)).run()
    assert copied == ["d/0.parquet", "d/1.parquet"]
    assert modes == {0o600}
    assert [one.name for one in scratch.iterdir() if one.name.startswith(SCRATCH)] == []
    manifest = (tmp_path / "out" / "manifest.json").read_text()
    assert SECRET not in manifest
    assert KEY not in manifest


CHANGES = {
    "an object is replaced": ("put", "d/0.parquet"),
    "the next object is replaced": ("put", "d/1.parquet"),
    "an object is added": ("put", "d/2.parquet"),
    "an object is removed": ("delete", "d/0.parquet"),
    "the next object is removed": ("delete", "d/1.parquet"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_objects_that_change_while_copied_are_refused(
    change: str, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i, part in enumerate(PARTS):
        bucket.put(f"d/{i}.parquet", file_bytes(part, "parquet"))
    verb, key = CHANGES[change]
    other = file_bytes(FRAME.iloc[:1], "parquet")

    def write_there(_: object) -> None:
        bucket.put(key, other) if verb == "put" else bucket.delete(key)

    write_while_copied(monkeypatch, write_there)
    file = release(tmp_path, bucket.uri("d/*.parquet"), ledger="ledger.sqlite")
    ledger = tmp_path / "ledger.sqlite"
    for table in ("t", "u"):
        words = [
            "ledger",
            "init",
            str(ledger),
            "--table",
            table,
            "--owner",
            "o",
            "--epsilon",
            "100",
        ]
        assert CliRunner().invoke(app, words).exit_code == 0
    with pytest.raises(DpReleaseError, match="DP-DATA-024") as caught:
        read_release(file).run()
    assert "changed" in str(caught.value)
    state = Ledger(ledger).state()
    assert [state.spent("o/t"), state.spent("o/u")] == [0, 0]
    assert caught.value.state is State.NOTHING
    assert not (tmp_path / "out").exists()


def test_check_and_plan_do_not_open_the_store(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "__init__", lambda *args: pytest.fail("the store was opened"))
    path = release(tmp_path, bucket.uri("d/*.parquet"))
    load_declaration(path)
    read_release(path).plan()


@pytest.mark.parametrize("path", ["s3://bucket/t.csv", "https://host/t.parquet"])
def test_spark_reads_only_parquet_from_stores(path: str, tmp_path: Path) -> None:
    declared = query_of(path, tmp_path).declared
    with pytest.raises(DataError, match="DP-SPARK-001"):
        spark_engine._find_spark_table(None, declared, None)
    assert "DP-SPARK-001" in str(unsupported_by_spark_error(declared))
    parquet = query_of("s3://bucket/t.parquet", tmp_path).declared
    assert unsupported_by_spark_error(parquet) is None


class OtherStore(http.server.BaseHTTPRequestHandler):
    """Answers as Google Cloud Storage and Azure do to requests for one object."""

    content = file_bytes(FRAME, "csv")
    paths: ClassVar[set[str]] = set()

    def do_HEAD(self) -> None:
        self.paths.add(unquote(self.path))
        start, end = 0, len(self.content)
        if asked := self.headers.get("Range"):
            first, last = asked.removeprefix("bytes=").split("-")
            start, end = int(first), int(last) + 1
        self.send_response(206 if asked else 200)
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
        self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(self.content)}")
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(self.content[start:end])

    def do_GET(self) -> None:
        if "t.csv" not in unquote(self.path):  # listings
            self.send_error(403)
        else:
            self.do_HEAD()

    def log_message(self, *args: object) -> None:
        return


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("gs://bucket/d/t.csv", "/bucket/d/t.csv"),
        ("az://container/d/t.csv", "/container/d/t.csv"),
        ("abfss://container@account.dfs.core.windows.net/d/t.csv", "/container/d/t.csv"),
    ],
)
def test_other_stores_use_settings_from_the_environment(
    uri: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("obstore", reason="the extra stores is not installed")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), OtherStore)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    account = {"gcs_base_url": endpoint, "disable_oauth": True}
    account |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
    (tmp_path / "account.json").write_text(json.dumps(account))
    for name, value in {
        "GOOGLE_SERVICE_ACCOUNT": str(tmp_path / "account.json"),
        "GOOGLE_ALLOW_HTTP": "true",
        "AZURE_STORAGE_ACCOUNT_NAME": "account",
        "AZURE_STORAGE_ENDPOINT": endpoint,
        "AZURE_SKIP_SIGNATURE": "true",
        "AZURE_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    OtherStore.paths.clear()
    try:
        assert vectors(query_of(uri, tmp_path)) == EXPECTED
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert OtherStore.paths == {path}
