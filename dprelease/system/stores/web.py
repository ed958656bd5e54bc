"""Download files of web servers over HTTPS."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from typing import Any, BinaryIO
from urllib.parse import quote

from dprelease.system.stores.address import StoreAddress
from dprelease.system.stores.failure import Cause, StoreError

CHUNK_BYTES = 1 << 20
TIMEOUT_SECONDS = 60
CAUSES = {401: Cause.DENIED, 403: Cause.DENIED, 404: Cause.MISSING, 410: Cause.MISSING}
"""The causes of refusals, by the status of the answer."""


class _EncryptedRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to https:// only."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        """Return the request of a redirect; refuse a redirect to an address without encryption."""
        if not newurl.lower().startswith("https://"):
            raise urllib.error.URLError("redirect without encryption")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def download(address: StoreAddress, target: BinaryIO) -> None:
    """Write the bytes of a file of a web server into a local file.

    Raises StoreError if the server can't be reached, or refuses, or the answer ends early. Raises
    OSError if the local file can't be written.
    """
    cause: Cause | None = None
    url = quote(address.url, safe="/:%[]!$&'()*+,;=~@-._")
    request = urllib.request.Request(url, headers={"User-Agent": "dprelease"})
    try:
        response = urllib.request.build_opener(_EncryptedRedirects).open(
            request, timeout=TIMEOUT_SECONDS
        )
    except urllib.error.HTTPError as problem:
        cause = CAUSES.get(problem.code, Cause.UNREACHABLE)
        problem.close()
    except (OSError, ValueError, http.client.HTTPException):
        cause = Cause.UNREACHABLE
    if cause is not None:
        raise StoreError(cause)
    with response:
        _write_body(response, target)


def _write_body(response: Any, target: BinaryIO) -> None:
    """Write the body of an answer; raise StoreError if it is not complete."""
    length, written = response.headers.get("Content-Length"), 0
    while True:
        chunk: bytes | None = None
        try:
            chunk = response.read(CHUNK_BYTES)
        except (OSError, ValueError, http.client.HTTPException):
            chunk = None
        if chunk is None:
            raise StoreError(Cause.UNREACHABLE)
        if not chunk:
            break
        target.write(chunk)
        written += len(chunk)
    # A connection that ends early looks like the end of the file. Half of the rows would be
    # counted.
    if response.status != http.client.OK or (length is not None and str(written) != length.strip()):
        raise StoreError(Cause.UNREACHABLE)
