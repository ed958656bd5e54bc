"""Addresses of objects in stores, such as s3://bucket/visits/*.parquet, without credentials.

Table schemas are published, so an address may not contain a password, a key or a signature. The
credentials are in the environment, where the store's client finds them.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

WEB = "https"
SCHEMES = ("s3", "gs", "az", "abfss", WEB)
"""The schemes of the stores that dprelease reads: of Amazon S3 and servers with the same
interface, Google Cloud Storage, Azure (two spellings), and web servers."""

SCHEMES_TEXT = "s3://, gs://, az://, abfss:// or https://"

AZURE_HOST = ".dfs.core.windows.net"
"""The end of the hosts of Azure's public cloud; only Spark reads from other hosts."""

_ADDRESS = re.compile(rf"({'|'.join(SCHEMES)})://([^/]*)(?:/(.*))?", re.DOTALL)
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_AUTHORITIES = {
    "abfss": rf"{_NAME}@{_NAME}\.dfs\.core\.windows\.net",
    WEB: rf"({_NAME}|\[[0-9A-Fa-f:]+\])(:[0-9]+)?",
}
_FORMS = {
    "abfss": "abfss://container@account.dfs.core.windows.net/path",
    "az": "az://container/path",
    WEB: "https://host/path",
}


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """An address of one object, or of all objects whose keys match a pattern."""

    scheme: str
    authority: str
    key: str

    @property
    def container(self) -> str:
        """Return the name of the bucket or container."""
        return self.authority.partition("@")[0]

    @property
    def account(self) -> str:
        """Return the Azure account that the address names; empty if the environment names it."""
        return self.authority.partition("@")[2].partition(".")[0]

    @property
    def has_pattern(self) -> bool:
        """Return whether the key has characters that stand for others."""
        return any(letter in self.key for letter in "*?[")

    @property
    def fixed_folder(self) -> str:
        """Return the part of the key before the first folder or name with a pattern."""
        parts = self.key.split("/")
        many = (i for i, part in enumerate(parts[:-1]) if any(letter in part for letter in "*?["))
        return "/".join(parts[: next(many, len(parts) - 1)])

    @property
    def url(self) -> str:
        """Return the whole address."""
        return f"{self.scheme}://{self.authority}/{self.key}"


def store_address(path: str | None) -> StoreAddress | None:
    """Return the address of a store that dprelease reads; None for any other path."""
    found = _ADDRESS.fullmatch(path or "")
    if found is None or (found[1] == "abfss" and not found[2].endswith(AZURE_HOST)):
        return None
    return StoreAddress(found[1], found[2], found[3] or "")


def address_problem(address: StoreAddress) -> tuple[str, str] | None:
    """Return what is wrong with an address, and what to do; None if it can be read.

    The texts quote nothing of the address, because a part of it may be a credential.
    """
    scheme, key = address.scheme, address.key
    is_web = scheme == WEB
    if "@" in address.authority and (scheme != "abfss" or ":" in address.authority):
        reason = "its URI contains a user name or a password, and schemas are published"
        return reason, "remove it; credentials are read from the environment"
    # In the key of an object, ? alone is a pattern, and only with = it is a query.
    if (is_web and "?" in key) or re.search(r"\?[^/]*=", key) or "#" in key:
        reason = "its URI has a query or a fragment, which may contain a signature or a key"
        return reason, "use the address without ? and #; credentials are read from the environment"
    if not re.fullmatch(_AUTHORITIES.get(scheme, _NAME), address.authority):
        form = _FORMS.get(scheme, f"{scheme}://bucket/path")
        return "its URI does not name a bucket, a container or a host", f"write {form}"
    parts = key.removesuffix("/").split("/") if key else []
    spelled = [unquote(part) if is_web else part for part in parts]
    if any(part in ("", ".", "..") or not part.isprintable() for part in spelled):
        reason = "the path of its URI has an empty part, '.', '..' or a control character"
        return reason, "use a path without them"
    if is_web and (address.has_pattern or not key or key.endswith("/")):
        return "web servers list no files", "name one file, without * and ["
    return None


def matches(pattern: str, key: str) -> bool:
    """Return whether a key matches a pattern, in which ** stands for any number of folders.

    As in local patterns, a part that begins with a dot matches only a part of the pattern that
    begins with a dot.
    """
    return _match_parts(pattern.split("/"), key.split("/"))


def _match_parts(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    first, rest = pattern[0], pattern[1:]
    if first == "**":
        if _match_parts(rest, parts):
            return True
        return bool(parts) and not parts[0].startswith(".") and _match_parts(pattern, parts[1:])
    if not parts or (parts[0].startswith(".") and not first.startswith(".")):
        return False
    return fnmatch.fnmatchcase(parts[0], first) and _match_parts(rest, parts[1:])
