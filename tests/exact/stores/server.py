"""A server with the interface of Amazon S3, and a web server with a certificate of its own."""

from __future__ import annotations

import datetime
import http.server
import ipaddress
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

KEY, SECRET = "AKIAKEYOFTHETESTS", "secretOfTheTests"
BUCKET = "people-bucket"


class Bucket:
    """A bucket of a local server, to which tests write."""

    def __init__(self, endpoint: str, name: str = BUCKET) -> None:
        import boto3

        self.name, self.endpoint = name, endpoint
        self._client: Any = boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )
        self._client.create_bucket(Bucket=name)

    def put(self, key: str, content: bytes) -> None:
        self._client.put_object(Bucket=self.name, Key=key, Body=content)

    def put_folder(self, folder: Path, prefix: str = "") -> None:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                self.put(prefix + file.relative_to(folder).as_posix(), file.read_bytes())

    def delete(self, key: str) -> None:
        self._client.delete_object(Bucket=self.name, Key=key)

    def get(self, key: str) -> bytes:
        content: bytes = self._client.get_object(Bucket=self.name, Key=key)["Body"].read()
        return content

    def keys(self, prefix: str = "") -> list[str]:
        found = self._client.list_objects_v2(Bucket=self.name, Prefix=prefix)
        return [one["Key"] for one in found.get("Contents", [])]

    def clear(self) -> None:
        for key in self.keys():
            self.delete(key)

    def uri(self, key: str) -> str:
        return f"s3://{self.name}/{key}"


@contextmanager
def running_bucket() -> Iterator[Bucket]:
    """Yield a bucket of a server that runs in a thread; skip the test without the packages."""
    moto = pytest.importorskip("moto.server", reason="Moto is not installed")
    pytest.importorskip("obstore", reason="the extra stores is not installed")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        yield Bucket(f"http://127.0.0.1:{port}")
    finally:
        server.stop()


def environment(bucket: Bucket) -> dict[str, str]:
    """Return the environment with which a client of S3 finds the server."""
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": bucket.endpoint,
        "AWS_ALLOW_HTTP": "true",
    }


def use(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients of S3 in this process find the server."""
    for name, value in environment(bucket).items():
        monkeypatch.setenv(name, value)


Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


@contextmanager
def running_web(folder: Path, answer: Answer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the address of a web server that answers each request by a function."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *args: object) -> None:
            return

    certificate = write_certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def write_certificate(folder: Path) -> Path:
    """Write a key and a certificate for 127.0.0.1 into one file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    host = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(host, critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file = folder / "server.pem"
    file.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return file
