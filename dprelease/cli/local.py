"""The plan of a local release on the command line, and its SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dprelease.cli.reporting import table

if TYPE_CHECKING:
    from dprelease.release.local.plan import LocalColumn
    from dprelease.release.plan import Plan


def local_plan_words(found: Plan) -> str:
    """Return the plan of a local release in words."""
    from dprelease.release.local.plan import LocalPlan

    assert isinstance(found, LocalPlan)  # the caller looked at the mode
    guarantee = found.guarantee
    at = f" at delta {float(guarantee.delta):g}" if guarantee.delta else ""
    lines = [f"epsilon {guarantee.epsilon:.6g}{at} for each single record, whatever it says"]
    rows = [("column", "mechanism", "parameters", "one record", "price alone")]
    for column, price in zip(found.local_columns, found.alone(), strict=True):
        shape = ", ".join(f"{name} {float(text):.6g}" for name, text in _parameters(column))
        name = f"{column.query.name}.{column.measure.name}"
        rows.append((name, column.mechanism.name, shape, _one_record(column), f"{price:.4g}"))
    public = "The number and the order of the records are published as they are."
    warnings = [f"Warning: {warning}" for warning in found.warnings]
    return "\n\n".join(["\n".join(lines), table(rows), public, *warnings])


def _parameters(column: LocalColumn) -> list[tuple[str, str]]:
    return [(name, text) for name, text in column.mechanism.parameters if text != "0.0"]


def _one_record(column: LocalColumn) -> str:
    from dprelease.release.local.plan import one_record

    told = one_record(column)
    if "keep" in told:
        return f"kept with a chance of {told['keep']:.4g}"
    return f"margin {float(column.margin()):,.6g} at 95 % {column.measure.unit}".rstrip()


def local_statements(found: Plan) -> dict[str, str]:
    """Return the SQL of all records, by name, for the types that columns are declared as."""
    from dprelease.release.local.plan import LocalPlan
    from dprelease.statements.records import assumed_types_of, compile_records

    assert isinstance(found, LocalPlan)  # the caller looked at the mode
    return {part.name: compile_records(part, assumed_types_of(part)).sql for part in found.records}
