"""Addresses of PostgreSQL servers: where they are, without credentials.

Schemas are published, and their digests as well. Passwords belong into a password file, a service
file or the environment, which libpq reads by itself. The keys of an address are an allow-list,
because libpq accepts some that name commands and files. No part of a refused address is ever
quoted: it may be the password.
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
"""Allowed keys after the `?` of an address.

https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS"""

SECRETS = ("password", "sslpassword", "oauth_client_secret")


def is_server(path: str | None) -> bool:
    """Return whether a path is the address of a PostgreSQL server."""
    return path is not None and path.startswith(SCHEMES)


def has_secret(path: str) -> bool:
    """Return whether an address contains a password, in any spelling."""
    before = path.partition("://")[2].partition("?")[0]
    return ":" in before.rpartition("@")[0] or any(key in SECRETS for key in _keys(path))


def has_unknown_key(path: str) -> bool:
    """Return whether an address has a key that is not allowed."""
    return any(key not in KEYS for key in _keys(path))


def _keys(path: str) -> list[str]:
    """Return the keys after the `?`, as libpq reads them."""
    query_text = path.partition("?")[2]
    return [unquote(part.partition("=")[0]) for part in query_text.split("&") if part]
