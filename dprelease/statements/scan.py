"""Compile one SELECT over `dp_source` for several joint tables: each row's cell in every table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dprelease.query.scans.scan_planning import Joint, Scan
from dprelease.statements.coded_rows import CodedRelation
from dprelease.statements.compiled_statements import KeyTable
from dprelease.statements.compiler import Compiler

MOST_32_BIT_CELLS = 2**31 - 1
"""Number of cells up to which cell numbers fit into 32-bit integers, with one for other rows."""


@dataclass(frozen=True, slots=True)
class JointTable:
    """A joint table, and the indexes of its columns in a row.

    `cells` is the index of the cell, and `added` has the index of the contribution to each vector,
    or None for a vector that counts rows. `size` is the number of cells, or of pairs of a cell and
    a candidate.
    """

    joint: Joint
    size: int
    cells: int
    added: dict[object, int | None]


@dataclass(frozen=True, slots=True)
class CompiledScan:
    """A SELECT whose rows are integers of up to 64 bits, never NULL.

    A row has its cell in each joint table, which is one above the last cell if the row does not
    count in that table. `wide` is the number of columns.
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
    return _ScanCompiler(scan, Compiler(scan.query, physical, joined)).build_scan()


class _ScanCompiler:
    """Renders the cells and values of joint tables as columns of one SELECT."""

    def __init__(self, scan: Scan, compiler: Compiler) -> None:
        self.scan, self.coded = scan, CodedRelation(compiler, scan.sources)
        self.out: list[str] = []

    def build_scan(self) -> CompiledScan:
        """Return the statement of the scan, and how its columns fill the joint tables."""
        filled = tuple(self._add_joint_table(joint) for joint in self.scan.joints)
        sql = self.coded.statement(f"SELECT {', '.join(self.out)}\nFROM coded")
        return CompiledScan(sql, len(self.out), self.coded.key_tables, filled)

    def _add_joint_table(self, joint: Joint) -> JointTable:
        """Add the columns of a joint table to the statement; return which it reads."""
        space = joint.space
        size = space.size * (joint.candidates or 1)
        cell = self.coded.cell(space, "INTEGER" if size < MOST_32_BIT_CELLS else "BIGINT")
        added: dict[object, int | None] = {}
        for vector, measurement in joint.vectors.items():
            value = self.coded.value(measurement)
            if joint.candidates:
                cell = f"({cell}) * {joint.candidates} + {value}"
            else:
                added[vector] = (
                    None if value is None else self._column_index(f"coalesce({value}, 0)")
                )
        if joint.condition is not None or joint.candidates or not all(k.rest for k in space.keys):
            cell = f"coalesce({self.coded.where(joint.condition, cell)}, {size})"
        return JointTable(joint, size, self._column_index(cell), added)

    def _column_index(self, expression: str) -> int:
        """Return the index of an expression in a row; equal expressions share one column."""
        if expression not in self.out:
            self.out.append(expression)
        return self.out.index(expression)
