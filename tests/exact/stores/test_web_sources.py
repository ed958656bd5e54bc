"""Files of web servers are read over HTTPS, whole or not at all."""

from __future__ import annotations

import http.server
from pathlib import Path

import pytest

from dprelease.errors import DataError
from dprelease.exact.engines import open_duckdb
from tests.exact.stores.server import Answer, running_web
from tests.exact.stores.test_store_sources import file_bytes
from tests.exact.test_sources import EXPECTED, FRAME, query_of, vectors

Request = http.server.BaseHTTPRequestHandler


def sends(content: bytes, length: int | None = None, status: int = 200, **more: str) -> Answer:
    """Return what answers with some bytes, a declared length (none for -1) and headers."""

    def answer(request: Request) -> None:
        request.send_response(status)
        if length != -1:
            request.send_header("Content-Length", str(len(content) if length is None else length))
        for name, value in more.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(content)

    return answer


@pytest.mark.parametrize("ending", ["parquet", "csv", "csv.gz", "jsonl"])
@pytest.mark.parametrize("length", [None, -1])
def test_web_files_give_the_same_vectors_as_local_files(
    ending: str, length: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_web(tmp_path, sends(file_bytes(FRAME, ending), length), monkeypatch) as host:
        assert vectors(query_of(f"{host}/a%20b/t.{ending}", tmp_path)) == EXPECTED


def test_redirects_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: Request) -> None:
        send = sends(file_bytes(FRAME, "csv"))
        moved = sends(b"", status=302, Location="/there.csv?sig=x")
        (send if request.path.startswith("/there") else moved)(request)

    with running_web(tmp_path, answer, monkeypatch) as host:
        assert vectors(query_of(f"{host}/t.csv", tmp_path)) == EXPECTED


ROWS = file_bytes(FRAME, "csv")
REFUSED = {
    "the answer ends early": (sends(ROWS, len(ROWS) + 1), "DP-DATA-024"),
    "a redirect without encryption": (
        sends(b"", status=302, Location="http://127.0.0.1:1/t.csv"), "DP-DATA-024",
    ),
    "a redirect to a file": (sends(b"", status=302, Location="file:///etc/passwd"), "DP-DATA-024"),
    "a redirect to itself": (sends(b"", status=302, Location="/t.csv"), "DP-DATA-024"),
    "a part of the file": (sends(ROWS, status=206), "DP-DATA-024"),
    "no access": (sends(b"secret words", status=403), "DP-DATA-024"),
    "no such file": (sends(ROWS, status=404), "DP-DATA-001"),
    "a failure": (sends(b"secret words", status=500), "DP-DATA-024"),
    "nothing of HTTP": (lambda request: request.connection.close(), "DP-DATA-024"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_incomplete_and_failed_responses_are_refused(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, code = REFUSED[case]
    with running_web(tmp_path, answer, monkeypatch) as host:
        query = query_of(f"{host}/t.csv", tmp_path)
        with pytest.raises(DataError, match=code) as caught, open_duckdb(query.declared, None):
            pass
    assert "secret" not in str(caught.value)


def test_invalid_certificate_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_web(tmp_path, sends(ROWS), monkeypatch) as host:
        monkeypatch.delenv("SSL_CERT_FILE")
        query = query_of(f"{host}/t.csv", tmp_path)
        with pytest.raises(DataError, match="DP-DATA-024"), open_duckdb(query.declared, None):
            pass
