"""Addresses of PostgreSQL servers: where they are, and nothing that lets anybody in.

Schemas are published, and their digests as well: a password is in a password file, in a service
file or in the environment, which libpq reads by itself. What an address may say is listed, for
among what libpq takes are commands and files of its own. No part of an address that is refused is
ever told: it may be the password.
"""

from __future__ import annotations

from urllib.parse import unquote

SCHEMES = ("postgresql://", "postgres://")

KEYS = (
    "service",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "sslmode",
    "sslrootcert",
    "channel_binding",
    "connect_timeout",
    "target_session_attrs",
)
"""What may follow the `?` of an address.
https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS"""

SECRETS = ("password", "sslpassword", "oauth_client_secret")


def is_server(path: str | None) -> bool:
    """Return whether a path is the address of a PostgreSQL server."""
    return path is not None and path.startswith(SCHEMES)


def has_secret(path: str) -> bool:
    """Return whether an address says a password, in whatever spelling."""
    before = path.partition("://")[2].partition("?")[0]
    return ":" in before.rpartition("@")[0] or any(key in SECRETS for key in _keys(path))


def has_unknown_key(path: str) -> bool:
    """Return whether an address says what it may not say."""
    return any(key not in KEYS for key in _keys(path))


def _keys(path: str) -> list[str]:
    """Return the keys behind the `?`, as libpq reads them."""
    asked = path.partition("?")[2]
    return [unquote(part.partition("=")[0]) for part in asked.split("&") if part]
