"""The result of checking a release file or a table schema; opens no data."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from dprelease.errors import DataError, DeclarationError, DpReleaseError, raise_all
from dprelease.errors.argument_types import checked_methods
from dprelease.errors.printable import count_text
from dprelease.planning.invariant_plans import invariant_warnings
from dprelease.planning.notes.limit_choices import private_limit_texts
from dprelease.planning.notes.notes import Note, notes, share_note
from dprelease.planning.notes.warnings import declaration_warnings
from dprelease.query.unread import unreadable_table_errors
from dprelease.query.view import schema_errors
from dprelease.release.kinds import plan_release
from dprelease.release.path_conflicts import refuse_own_source
from dprelease.release.run_options import engine_exposures
from dprelease.schema.languages import columns_without_labels
from dprelease.system.summaries import Summarized, Summary

if TYPE_CHECKING:
    from dprelease.schema.load import Declaration, Declared

LIMITS_TEXT = "Limits: {}"
"""The text of the note on limits that are chosen privately."""

logger = logging.getLogger("dprelease")


@dataclass(frozen=True, slots=True, repr=False)
@checked_methods
class CheckResult(Summarized):
    """The result of a check: errors in `findings`, or what a release will publish.

    `name`: the name of the file. `tables`, `columns`: the numbers of published tables and columns;
    for a table schema, the number of its columns. `left_open`: what is not checked until the engine
    runs. `unread`: errors of tables that the engine can't read, unless a frame replaces them.
    """

    name: str
    findings: tuple[DpReleaseError, ...] = ()
    tables: int = 0
    columns: int = 0
    is_schema: bool = False
    left_open: tuple[str, ...] = ()
    unread: tuple[DataError, ...] = ()
    warnings: tuple[DeclarationError, ...] = ()
    invariants: tuple[str, ...] = ()
    """Warnings about exact totals outside the guarantee."""
    without_label: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()

    def _summary(self) -> Summary:
        """Return the errors, or the number of tables and columns; then the warnings."""
        rows: list[tuple[object, object]] = [(one.code, str(one.place)) for one in self.findings]
        if self.ok:
            tables = [] if self.is_schema else [("tables", self.tables)]
            rows += [*tables, ("columns", self.columns)]
        rows += [("warning", one.code) for one in self.warnings]
        state = "ok" if self.ok else count_text(len(self.findings), "error", "errors")
        return f"CheckResult: {self.name}, {state}", ("", ""), rows

    @property
    def ok(self) -> bool:
        """Return whether there are no errors."""
        return not self.findings

    @classmethod
    def failed(cls, name: str, findings: Sequence[DpReleaseError]) -> Self:
        """Return the result of a check that has found errors."""
        logger.info("%s has %s", name, count_text(len(findings), "error", "errors"))
        return cls(name, tuple(findings))

    @classmethod
    def of_schema(cls, declared: Declared) -> Self:
        """Return the result for a table schema; raises all errors in its expressions."""
        raise_all(schema_errors(declared))
        columns = len(declared.table.columns)
        return cls(declared.document.path.name, columns=columns, is_schema=True)

    @classmethod
    def of_release(cls, declaration: Declaration) -> Self:
        """Return the result for a release; raises all errors that a run would find without data."""
        made = plan_release(declaration)
        made.check(trial=True)
        queries = made.plan.queries
        refuse_own_source(declaration, made.plan)
        return cls(
            declaration.document.path.name,
            tables=len(queries),
            # A mean is one published column of two measurements; records have measurements alone.
            columns=sum(len(query.columns or query.measurements) for query in queries),
            left_open=tuple(engine_exposures(declaration)),
            unread=tuple(unreadable_table_errors(declaration, queries)),
            warnings=tuple(declaration_warnings(declaration)),
            invariants=tuple(invariant_warnings(made.plan.guarantee.invariants)),
            without_label=tuple(columns_without_labels(declaration.spec)),
            notes=(
                *notes(queries),
                share_note(declaration.spec, queries),
                Note("limit_choices", LIMITS_TEXT, private_limit_texts(declaration, made.plan)),
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        if self.findings:
            return {"ok": False, "findings": [error.to_json() for error in self.findings]}
        if self.is_schema:
            return {"ok": True, "columns": self.columns}
        return {
            "ok": True,
            "queries": self.tables,
            "columns": self.columns,
            "left_open": list(self.left_open),
            "unread": [error.to_json() for error in self.unread],
            "warnings": [warning.to_json() for warning in self.warnings],
            "without_label": list(self.without_label),
            **{note.name: note.items for note in self.notes},
        }
