"""The engine duckdb: on this machine, in this process."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from dprelease.errors import DataError
from dprelease.exact.answering import Sources
from dprelease.schema.load import Declared

if TYPE_CHECKING:
    from dprelease.exact.duckdb import Engine
    from dprelease.exact.settings import Settings
    from dprelease.schema.release import ReleaseSpec


def beyond(declared: Declared) -> DataError | None:
    """Return DP-SPARK-006 for a table whose source Spark alone can read; None for any other.

    Told by the declaration alone: nothing is looked for.
    """
    source = declared.table.source
    if source is None or not source.is_sparks:
        return None
    kind = "a path with a scheme" if source.is_uri else "a table of Spark's catalogue"
    return DataError("DP-SPARK-006", table=declared.table.name, format=kind)


class MachineKind:
    """See `EngineKind`; this one also reads single records."""

    def open(
        self, sources: Sources, spec: ReleaseSpec | None, settings: Settings
    ) -> AbstractContextManager[Engine]:
        """See `EngineKind.open`."""
        from dprelease.exact.duckdb import Engine

        return Engine.open(
            sources.declared,
            sources.frame,
            sources.joined,
            sources.joined_frame,
            settings,
            sources.servers,
        )

    def left_open(self, spec: ReleaseSpec) -> list[str]:
        """Return nothing: nobody else takes part."""
        return []


ENGINE = MachineKind()
