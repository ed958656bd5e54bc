"""One SELECT over `dp_source` for several joint tables: of each row its cell in every one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dprelease.query import quoting
from dprelease.query.joint import Joint, Scan
from dprelease.query.keys import Key
from dprelease.query.measurement import Measurement
from dprelease.statements.compiler import Compiler, KeyTable, reads_values


@dataclass(frozen=True, slots=True)
class Filled:
    """A joint table and where its numbers stand in a row: `cells`, and one place for each vector.

    A vector without a place counts rows. `size`: cells, or pairs of a cell and a candidate.
    """

    joint: Joint
    size: int
    cells: int
    added: dict[object, int | None]


@dataclass(frozen=True, slots=True)
class CompiledScan:
    """A SELECT whose rows are BIGINTs, none of them NULL.

    Of each joint table a row has its cell, which is one beyond the last if it does not count there.
    """

    sql: str
    key_tables: tuple[KeyTable, ...]
    filled: tuple[Filled, ...]


def compile_scan(
    scan: Scan, physical: Mapping[str, str], joined: Mapping[str, str]
) -> CompiledScan:
    """Return the SELECT of a scan, given the engine's types of all stored columns.

    Raises
    ------
    DataError
        DP-DATA-004 if a stored type can't be read as declared.
    """
    return _Writer(scan, Compiler(scan.query, physical, joined)).compiled()


class _Writer:
    """Writes the statement: typed rows, then codes and values once, then cells from codes."""

    def __init__(self, scan: Scan, compiler: Compiler) -> None:
        self.scan, self.compiler = scan, compiler
        codes = {name: compiler.code(key) for name, key in scan.keys.items()}
        self.codes = {name: f"k{i}" for i, name in enumerate(codes)}
        self.coded = ["1 AS one"] + [
            f"{code} AS {self.codes[name]}" for name, code in codes.items()
        ]
        self.values: dict[object, str] = {}
        self.flags: dict[str, str] = {}
        self.out: list[str] = []

    def compiled(self) -> CompiledScan:
        filled = tuple(self._joint(joint) for joint in self.scan.joints)
        joins = " ".join(self.compiler.joins)
        typed = self.compiler.typed()
        if self.flags:  # beside tables of keys, names in a condition could mean two columns
            flags = ", ".join(f"({sql}) AS {name}" for sql, name in self.flags.items())
            typed = f"SELECT *, {flags} FROM ({typed})"
        coded = f"SELECT {', '.join(['1 AS one', *self.coded])} FROM typed {joins}"
        last = f"SELECT {', '.join(self.out)} FROM coded"
        sql = f"WITH typed AS (\n  {typed}\n),\ncoded AS (\n  {coded}\n)\n{last}"
        return CompiledScan(sql, tuple(self.compiler.key_tables), filled)

    def _joint(self, joint: Joint) -> Filled:
        space = joint.space
        cell = " + ".join(
            f"{self._code(key)} * {stride}"
            for key, stride in zip(space.keys, space.strides, strict=True)
        )
        cell, size = cell or "0::BIGINT", space.size
        added: dict[object, int | None] = {}
        for vector, measurement in joint.vectors.items():
            value = self._value(vector, measurement)
            if joint.candidates:
                cell, size = f"({cell}) * {joint.candidates} + {value}", size * joint.candidates
            else:
                added[vector] = None if value is None else self._place(f"coalesce({value}, 0)")
        if joint.condition is not None:
            cell = f"CASE WHEN {self._flag(joint.condition.sql)} THEN {cell} END"
        return Filled(joint, size, self._place(f"coalesce({cell}, {size})"), added)

    def _code(self, key: Key) -> str:
        code = f"CAST({self.codes[key.column]} AS BIGINT)"
        return f"coalesce({code}, {len(key.values)})" if key.rest else code

    def _value(self, vector: object, measurement: Measurement) -> str | None:
        """Return the column of what a row adds, made once for all tables; None for rows."""
        if not measurement.is_choice and not reads_values(measurement):
            return None
        if vector not in self.values:
            self.values[vector] = f"v{len(self.values)}"
            self.coded.append(f"{self.compiler.value(measurement)} AS {self.values[vector]}")
        return self.values[vector]

    def _flag(self, condition: str) -> str:
        if condition not in self.flags:
            self.flags[condition] = quoting.identifier(f"{self.unused}{len(self.flags)}")
            self.coded.append(f"typed.{self.flags[condition]}")
        return self.flags[condition]

    @property
    def unused(self) -> str:
        """Return the beginning of names that no column has."""
        start = "dp_where"
        while any(name.casefold().startswith(start) for name in self.scan.columns):
            start += "_"
        return start

    def _place(self, expression: str) -> int:
        """Return where an expression stands in a row; each stands there once."""
        if expression not in self.out:
            self.out.append(expression)
        return self.out.index(expression)
