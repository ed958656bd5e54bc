"""The engine duckdb: on this machine, in this process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING

from dprelease.exact.answering import Sources

if TYPE_CHECKING:
    from dprelease.exact.duckdb import Engine
    from dprelease.exact.settings import Settings
    from dprelease.schema.release import ReleaseSpec

ENGINE_MODULE = "dprelease.exact.duckdb"


class MachineKind:
    """See `EngineKind`; this one also reads single records."""

    def open(
        self, sources: Sources, spec: ReleaseSpec | None, settings: Settings
    ) -> AbstractContextManager[Engine]:
        """See `EngineKind.open`."""
        if ENGINE_MODULE in sys.modules:
            return _engine(sources, settings)
        return _first_engine(sources, settings)

    def begun(self) -> AbstractContextManager[None]:
        """See `Beginning.begun`; the first engine of a process begins where its modules load."""
        if ENGINE_MODULE not in sys.modules:
            return nullcontext()
        from dprelease.exact.connection import opening_ahead

        return opening_ahead()

    def left_open(self, spec: ReleaseSpec) -> list[str]:
        """Return nothing: nobody else takes part."""
        return []


def _engine(sources: Sources, settings: Settings) -> AbstractContextManager[Engine]:
    from dprelease.exact.duckdb import Engine

    return Engine.open(
        sources.declared,
        sources.frame,
        sources.joined,
        sources.joined_frame,
        settings,
        sources.servers,
        sources.queries,
    )


@contextmanager
def _first_engine(sources: Sources, settings: Settings) -> Iterator[Engine]:
    """Yield the first engine of a process, whose connection is opened while modules are loaded."""
    from dprelease.exact.connection import opening_ahead

    with ExitStack() as stack:
        with opening_ahead():
            engine = stack.enter_context(_engine(sources, settings))
        yield engine


ENGINE = MachineKind()
