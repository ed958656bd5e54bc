"""Run an audited release, without its sources, on synthetic tables.

The declaration of an `AuditedRelease` has tables without a declared source, and neither a ledger
nor a key. All modules of this package use an `AuditedRelease` to open engines and to run the
release, so that no argument can lead to a declared source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.auditing.pairs import Tables
from dprelease.errors import DpReleaseError, QueryError, RunState
from dprelease.exact.engine_api import QueryEngine
from dprelease.exact.engines import keep_engine_alive, open_duckdb, open_engines
from dprelease.numerics.entropy import BitSource
from dprelease.planning.plan import Plan
from dprelease.planning.prepare import prepare
from dprelease.query.resolve import Query
from dprelease.release.run_options import with_party
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import Declaration, Declared
from dprelease.schema.release_parts.engines_and_formats import DuckDBSpec
from dprelease.schema.release_parts.extension_names import DEFAULT_ENGINE
from dprelease.schema.source_types.source import Source

if TYPE_CHECKING:
    from dprelease.exact.results.true_records import ExactRecords
    from dprelease.query.local_records import Records

OWNER = "audit"
"""The owner of synthetic tables whose declaration names no owner."""


PARTY = 1
"""The number of the party whose run is audited, because all parties run the same code."""


class EngineFailure(Exception):
    """The failure of an engine on synthetic rows.

    `code` is the code of the engine's error, or the name of its class if it has no code.
    """

    def __init__(self, problem: Exception) -> None:
        own = isinstance(problem, DpReleaseError)
        self.code = problem.code if isinstance(problem, DpReleaseError) else type(problem).__name__
        super().__init__(str(problem) if own else self.code)


@contextmanager
def _wrap_failures() -> Iterator[None]:
    """Raise every error within the `with` block as an `EngineFailure`."""
    try:
        yield
    except EngineFailure:
        raise
    except Exception as problem:
        raise EngineFailure(problem) from problem


NO_AUDIT = "an audit tests one release, and the choice is a release before it"


@dataclass(frozen=True)
class AuditedRelease:
    """An audited release without any source: its declaration, its queries and its plan."""

    declaration: Declaration
    queries: tuple[Query, ...]
    plan: Plan

    @classmethod
    def of(cls, declaration: Declaration, engine: str = DEFAULT_ENGINE) -> AuditedRelease:
        """Return a release without its sources, with the noise of the declared release.

        Raises QueryError, BudgetError or Findings: the errors of `prepare`.
        """
        spec = declaration.spec.model_copy(update={"engine": engine, "duckdb": DuckDBSpec()})
        without_sources = replace(
            declaration, spec=spec, tables=_tables_without_sources(declaration)
        )
        without_sources = replace(without_sources, key=None, audit=None)
        if declaration.choices is not None:
            one = declaration.choices.limits[0]
            place = declaration.place("queries", one.queries[0], one.limit)
            raise QueryError("DP-QUERY-016", place=place, limit=one.limit, reason=NO_AUDIT)
        queries, plan = prepare(without_sources)
        without_ledger = replace(without_sources, spec=spec.model_copy(update={"ledger": None}))
        return cls(without_ledger, queries, plan)

    @property
    def records(self) -> tuple[Records, ...]:
        """Return the records of a release of single records; empty for other releases."""
        return self.plan.records

    def keep_engine(self) -> AbstractContextManager[None]:
        """Return a context manager; all engines that are opened in its block share resources."""
        return keep_engine_alive(self.declaration.spec)

    @contextmanager
    def engines(self, queries: Sequence[Query], tables: Tables) -> Iterator[dict[str, QueryEngine]]:
        """Yield the engine of each query, which reads synthetic tables.

        Raises EngineFailure if the engine fails when it is opened or used. Raises TypeError if a
        query belongs to a declaration with sources.
        """
        for query in queries:
            joined = [] if query.join is None else [query.join.declared]
            if any(one.table.source is not None for one in [query.declared, *joined]):
                raise TypeError("an audit asks invented tables alone")
        with _wrap_failures(), open_engines(queries, tables, self.declaration.spec) as engines:
            yield engines

    def exact_records(self, part: Records, tables: Tables) -> ExactRecords:
        """Return the exact values of single records.

        The errors are those of `engines`.
        """
        if part.declared.table.source is not None:
            raise TypeError("an audit asks invented tables alone")
        frame = tables[part.declared.table.name]
        with _wrap_failures(), open_duckdb(part.declared, frame) as engine:
            engine.compile_records(part)
            return engine.records(part)

    def publish(
        self,
        folder: Path,
        tables: Tables,
        bits: BitSource,
        *,
        files: Mapping[str, Source] | None = None,
        ledger: Path | None = None,
        formats: tuple[str, ...] | None = None,
        progress: Callable[[str], None] = lambda _step: None,
        state: RunState | None = None,
    ) -> Path:
        """Run the whole release on synthetic people, and return its folder.

        The errors are those of `pipeline.run`.

        - `tables`: the synthetic tables by name.
        - `files`: the files that were written from `tables`, by table. A table without a file is
          read as a frame.
        - `formats`: the formats of publication that replace the declared formats.
        - `progress`: a function that is called with the name of each step.
        """
        written = files or {}
        spec, without_sources = self.declaration.spec, self.declaration
        more = {"ledger": None if ledger is None else str(ledger)}
        spec = spec.model_copy(update=more if formats is None else {**more, "formats": formats})
        tables_with_sources = {
            name: replace(
                declared, table=declared.table.model_copy(update={"source": written.get(name)})
            )
            for name, declared in without_sources.tables.items()
        }
        frames = {name: table for name, table in tables.items() if name not in written}
        party = None if spec.federated is None else PARTY
        return run(
            with_party(replace(without_sources, spec=spec, tables=tables_with_sources), party),
            output=folder,
            bits=bits,
            frames=frames,
            progress=progress,
            state=state,
        )


def _tables_without_sources(declaration: Declaration) -> dict[str, Declared]:
    """Return the declared tables without sources, and with an owner, which a ledger requires."""
    without_sources = {}
    for name, declared in declaration.tables.items():
        owner = {"owner": declared.table.owner or OWNER}
        table = declared.table.with_source(None).model_copy(update=owner)
        without_sources[name] = replace(declared, table=table)
    return without_sources
