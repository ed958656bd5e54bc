"""Compile one SELECT over `dp_source` for several joint tables: each row's cell in every table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dprelease.query.scans.scan_planning import Joint, Scan
from dprelease.statements.coded_rows import CodedRelation
from dprelease.statements.compiled_statements import KeyTable
from dprelease.statements.compiler import Compiler

NARROW = 2**31 - 1
"""Cells, including one for other rows, that fit into integers of half the length."""


@dataclass(frozen=True, slots=True)
class JointTable:
    """A joint table and its columns in a row: `cells`, and one index for each vector.

    A vector without an index counts rows. `size`: cells, or pairs of a cell and a candidate.
    """

    joint: Joint
    size: int
    cells: int
    added: dict[object, int | None]


@dataclass(frozen=True, slots=True)
class CompiledScan:
    """A SELECT whose rows are integers of up to 64 bits, never NULL.

    For each joint table a row has its cell, which is one above the last if it does not count there.
    `wide`: the number of columns.
    """

    sql: str
    wide: int
    key_tables: tuple[KeyTable, ...]
    filled: tuple[JointTable, ...]


def compile_scan(
    scan: Scan, physical: Mapping[str, str], joined: Mapping[str, str]
) -> CompiledScan:
    """Return the SELECT of a scan, given the engine's types of all stored columns.

    Raises
    ------
    DataError
        DP-DATA-004 if a stored type can't be read as declared.
    """
    return _Writer(scan, Compiler(scan.query, physical, joined)).build_scan()


class _Writer:
    """Renders the cells and values of joint tables."""

    def __init__(self, scan: Scan, compiler: Compiler) -> None:
        self.scan, self.coded = scan, CodedRelation(compiler, scan.sources)
        self.out: list[str] = []

    def build_scan(self) -> CompiledScan:
        filled = tuple(self._joint(joint) for joint in self.scan.joints)
        sql = self.coded.statement(f"SELECT {', '.join(self.out)}\nFROM coded")
        return CompiledScan(sql, len(self.out), self.coded.key_tables, filled)

    def _joint(self, joint: Joint) -> JointTable:
        space = joint.space
        size = space.size * (joint.candidates or 1)
        cell = self.coded.cell(space, "INTEGER" if size < NARROW else "BIGINT")
        added: dict[object, int | None] = {}
        for vector, measurement in joint.vectors.items():
            value = self.coded.value(measurement)
            if joint.candidates:
                cell = f"({cell}) * {joint.candidates} + {value}"
            else:
                added[vector] = None if value is None else self._place(f"coalesce({value}, 0)")
        if joint.condition is not None or joint.candidates or not all(k.rest for k in space.keys):
            cell = f"coalesce({self.coded.where(joint.condition, cell)}, {size})"
        return JointTable(joint, size, self._place(cell), added)

    def _place(self, expression: str) -> int:
        """Return the index of an expression in a row; equal expressions share one."""
        if expression not in self.out:
            self.out.append(expression)
        return self.out.index(expression)
