"""Sum the finest cells of a family of consistent tables once, in a table of the engine.

The finest cells are those of which all tables of the family are sums. Rows are read once for all
tables of the family, and contributions are limited once, by the finest cells. So every table is a
sum over the same rows. The engine holds the finest cells of one family at a time, and uses its disk
if necessary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from dprelease.exact.table_reader import Attempt
from dprelease.privacy.unit import PrivacyUnit
from dprelease.query.aggregates.aggregate import Aggregate
from dprelease.query.grouping.group_keys import KeySpace
from dprelease.query.resolve import Query
from dprelease.statements.coarser import FINEST_RELATION, LEVEL_RELATION, level_above
from dprelease.statements.compiled_statements import CompiledQuery, KeyTable
from dprelease.statements.finest_cells import compile_finest, compile_level, compile_of_finest

Types = Mapping[str, str]


@dataclass
class FinestTables:
    """The finest cells of the current family, which are summed when its first table is read.

    Four fields are functions of the engine. `attempt`: does work on the connection. `register`:
    creates tables of keys. `bound`: creates the table of the rows kept after contribution limits,
    and returns False if these rows do not fit in memory. `forget`: drops the table of kept rows.
    """

    attempt: Attempt
    register: Callable[[Iterable[KeyTable]], None]
    bound: Callable[[str, PrivacyUnit, int], bool]
    forget: Callable[[], None]
    _made: tuple[KeySpace | None, PrivacyUnit | None, list[Aggregate]] | None = None
    """The current family: its key space, and the contribution limits and aggregates for which the
    finest cells were summed. The key space itself is held, because its `id()` could be reused."""
    _level: tuple[str, ...] | None = None
    """The key columns of the level whose cells the engine holds."""

    def prepare_statements(self, query: Query, physical: Types, joined: Types) -> CompiledQuery:
        """Return the statements of one table; sum the finest cells first if the engine lacks them.

        `physical`: the engine's types of the stored columns of the query's table. `joined`: the
        types of the stored columns of the joined table.

        Raises DataError if a statement can't be compiled for these types, or fails in the engine.
        """
        aggregates = [m.aggregate for m in query.measurements]
        held, unit, added = self._made or (None, None, [])
        if held is not query.finest or unit != query.unit or added != aggregates:
            # Forgotten before the sums are replaced: if summing fails, no later table may take what
            # is left for its own cells.
            self._made, self._level = None, None
            self._sum_finest_cells(query, physical, joined)
            self._made = query.finest, query.unit, aggregates
        level = level_above(query.finest or query.keys, query.keys)
        if level is not None:
            self._sum_to_level(query, physical, level)
        return compile_of_finest(query, physical, level)

    def _sum_to_level(self, query: Query, physical: Types, level: KeySpace) -> None:
        """Sum the finest cells to the cells of a level, unless the engine holds that level."""
        name = tuple(key.column for key in level.keys)
        if self._level == name:
            return
        # As above: a level that was not summed to its end must not be used.
        self._level = None
        cells = compile_level(query, physical, level)
        self.register(cells.key_tables)
        sql = f"CREATE OR REPLACE TEMP TABLE {LEVEL_RELATION} AS {cells.sql}"
        self.attempt(lambda link: link.execute(sql))
        self._level = name

    def drop_shared_data(self) -> None:
        """Drop the finest cells, if there are any."""
        if self._made is not None:
            self._made, self._level = None, None
            drop = "; ".join(
                f"DROP TABLE IF EXISTS {name}" for name in (LEVEL_RELATION, FINEST_RELATION)
            )
            self.attempt(lambda link: link.execute(drop))

    def _sum_finest_cells(self, query: Query, physical: Types, joined: Types) -> None:
        """Read all rows, limit contributions, and sum the finest cells."""
        unit, space = query.unit, query.finest or query.keys
        cells = compile_finest(query, physical, joined)
        self.register(cells.key_tables)
        if unit.id is not None:
            self.forget()  # leftovers of a query that failed
            bounded_cells = compile_finest(query, physical, joined, bounded=True)
            if self.bound(bounded_cells.all_rows_sql, unit, space.size):
                cells = bounded_cells
        sql = f"CREATE OR REPLACE TEMP TABLE {FINEST_RELATION} AS {cells.sql}"
        self.attempt(lambda link: link.execute(sql))
        if unit.id is not None:
            self.forget()
