"""Local and federated releases on the command line: plans, and estimates from noised records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dprelease.cli.reporting import AsJson, print_result, report_failures
from dprelease.cli.texts.text_tables import table_text
from dprelease.errors.printable import one_line

if TYPE_CHECKING:
    from dprelease.planning.local_plan import LocalColumn
    from dprelease.planning.plan import Plan


# Show the plan of a federated release on the command line.


def federated_plan_text(plan: Plan, *, wide: bool, explain: bool) -> str:
    """Return the guarantees by number of honest parties, and the explained noise of a party."""
    from dprelease.planning.federated_plan import FederatedPlan

    assert isinstance(plan, FederatedPlan)  # the caller has checked this
    rows = [("honest", "epsilon of the sum", "of it for rounding")]
    for trust in plan.trusts:
        name = f"{trust.honest} of {plan.parties}"
        rows.append((name, f"{trust.guarantee.epsilon:.6g}", f"{trust.rounding:.3g}"))
    shares = [
        (
            "column",
            "alpha",
            "scale of a share",
            "steps of the parties",
            "margin of the sum",
            "largest of a party",
        )
    ]
    for share in plan.shares:
        shares.append(
            (
                f"{share.query.name}.{share.measurement.name}",
                f"{share.mechanism.alpha:g}",
                f"{share.mechanism.scale / share.refined * float(share.measurement.step):,.6g}",
                f"1/{share.refined}",
                f"{float(share.margin(plan.parties)):,.6g}",
                f"{float(share.clamping_bound(plan.parties) * share.measurement.step):.3g}",
            )
        )
    words = (
        "Messages of single parties are not for publication: they have the epsilon of one honest "
        "party. The others hold where nothing but the sum is seen."
    )
    noise = [table_text(shares, wide=wide)] if explain else []
    return "\n\n".join([table_text(rows, wide=wide), words, *noise])


def local_plan_text(plan: Plan, *, wide: bool) -> str:
    """Return the plan of a local release as text."""
    from dprelease.planning.local_plan import LocalPlan

    assert isinstance(plan, LocalPlan)  # the caller has checked the mode of the release
    guarantee = plan.guarantee
    at = f" at delta {float(guarantee.delta):g}" if guarantee.delta else ""
    lines = [f"epsilon {guarantee.epsilon:.6g}{at} for each single record, whatever it says"]
    rows = [("column", "mechanism", "parameters", "one record", "cost alone")]
    for column, price in zip(plan.local_columns, plan.costs_alone(), strict=True):
        shape = ", ".join(f"{name} {float(text):.6g}" for name, text in _parameter_rows(column))
        name = f"{column.query.name}.{column.measurement.name}"
        rows.append((name, column.mechanism.name, shape, _record_text(column), f"{price:.4g}"))
    public = "The exact number of records is published; their order is random."
    warnings = [f"Warning: {one_line(warning)}" for warning in plan.warnings]
    return "\n\n".join(["\n".join(lines), table_text(rows, wide=wide), public, *warnings])


def _parameter_rows(column: LocalColumn) -> list[tuple[str, str]]:
    """Return the names and values of noise parameters, without those that are 0."""
    return [(name, text) for name, text in column.mechanism.parameters if text != "0.0"]


def _record_text(column: LocalColumn) -> str:
    """Return the effect of the noise on one record, in words."""
    from dprelease.planning.local_plan import record_noise_json

    effect = record_noise_json(column)
    if "keep" in effect:
        return f"unchanged with probability {effect['keep']:.4g}"
    return f"margin {float(column.margin()):,.6g} at 95 % {column.measurement.unit}".rstrip()


def estimate(
    folder: Annotated[Path, typer.Argument(help="A local release.", show_default=False)],
    column: Annotated[str, typer.Argument(help="One of its columns.", show_default=False)],
    records: Annotated[
        str | None, typer.Option(help="The name of the records, if the release has several.")
    ] = None,
    confidence: Annotated[
        float, typer.Option(min=0.5, max=0.999999, help="The confidence of the margin of error.")
    ] = 0.95,
    as_json: AsJson = False,
) -> None:
    """Estimate a mean, or frequencies, from the noised records of a local release."""
    with report_failures(as_json):
        from dprelease.verification.after_publication.record_estimates import local_estimate

        estimates = local_estimate(folder, column, records=records, confidence=confidence)
        rows = [("value", "estimate", "margin")]
        for row in estimates:
            name = "mean" if row.value is None else str(row.value)
            rows.append((name, f"{row.estimate:,.6g}", f"{row.margin:,.6g}"))
        print_result(as_json, [row.to_json() for row in estimates], table_text(rows))
