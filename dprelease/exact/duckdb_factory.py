"""Register the engine duckdb, which runs in this process."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from dprelease.exact.engine_api import EngineKind, Sources

if TYPE_CHECKING:
    from dprelease.exact.duckdb import Engine
    from dprelease.exact.settings import Settings
    from dprelease.schema.release import ReleaseSpec


class DuckDBKind(EngineKind):
    """Opens the engine duckdb, which also reads single records."""

    def open(
        self, sources: Sources, spec: ReleaseSpec | None, settings: Settings
    ) -> AbstractContextManager[Engine]:
        """Return a context manager that opens an engine over these sources, and closes it."""
        from dprelease.exact.duckdb import Engine

        kind = Engine
        # Such a query reads the table of another query, so the engine has to open that one.
        if any(query.contributions_of is not None for query in sources.queries or ()):
            from dprelease.exact.bounding.contribution_engine import ContributionEngine

            kind, sources = ContributionEngine, ContributionEngine.sources(sources)
        return kind.open(
            sources.declared,
            sources.frame,
            sources.joined,
            sources.joined_frame,
            settings,
            sources.servers,
            sources.queries,
        )


ENGINE = DuckDBKind()
