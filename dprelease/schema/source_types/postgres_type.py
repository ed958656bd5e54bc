"""Tables of PostgreSQL servers, as a schema declares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dprelease.schema.field_types import refuse
from dprelease.schema.server_address import KEYS, SCHEMES, has_password, has_unknown_key
from dprelease.schema.source_types.source_type import (
    ANY,
    CASE,
    OTHER,
    TIME_OPTIONS,
    EqualityRule,
    SourceType,
)


class Postgres(SourceType):
    """A table of a PostgreSQL server.

    Its collations distinguish all texts, unless they are declared nondeterministic. Blanks at the
    end of char(n) values are not read. UUIDs are read as texts in lower case.
    """

    name = "postgres"
    label = "a table of a PostgreSQL server"
    schemes = SCHEMES
    options = TIME_OPTIONS
    has_tables = True
    comparisons: ClassVar[Mapping[str, EqualityRule]] = {
        "citext": EqualityRule(CASE, "lower({column}::text)"),
        OTHER: EqualityRule(ANY),
    }

    def check_address(self, address: str) -> None:
        """Refuse an address with a password, or with a key that is not allowed."""
        if has_password(address):
            refuse("DP-SCHEMA-020")
        if has_unknown_key(address):
            refuse("DP-SCHEMA-021", known=", ".join(KEYS))


SOURCE_TYPE = Postgres()
