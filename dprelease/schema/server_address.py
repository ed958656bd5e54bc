"""Addresses of PostgreSQL servers, without credentials.

Table schemas and their digests are published. Passwords belong in a password file, a service file
or the environment, which libpq reads by itself. An allow-list limits the keys of an address,
because libpq accepts keys that name commands and files. Messages never quote any part of a refused
address, because it may be the password.
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
"""The allowed keys after the `?` of an address.

https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS"""

SECRETS = ("password", "sslpassword", "oauth_client_secret")


def is_server(path: str | None) -> bool:
    """Return whether a path is the address of a PostgreSQL server."""
    return path is not None and path.startswith(SCHEMES)


def has_password(path: str) -> bool:
    """Return whether an address contains a password, in any spelling."""
    before = path.partition("://")[2].partition("?")[0]
    # Up to the last @, because a password may contain one.
    return ":" in before.rpartition("@")[0] or any(key in SECRETS for key in _query_keys(path))


def has_unknown_key(path: str) -> bool:
    """Return whether an address has a key that is not allowed."""
    return any(key not in KEYS for key in _query_keys(path))


def _query_keys(path: str) -> list[str]:
    """Return the keys after the `?`, as libpq reads them."""
    query_text = path.partition("?")[2]
    # libpq decodes the keys as well, so %70assword is the key `password`.
    return [unquote(part.partition("=")[0]) for part in query_text.split("&") if part]
