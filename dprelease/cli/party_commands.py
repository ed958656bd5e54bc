"""Show the plan of a federated release on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dprelease.cli.shown.shown_tables import table_text

if TYPE_CHECKING:
    from dprelease.planning.plan import Plan


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
                f"{share.law.alpha:g}",
                f"{share.law.scale / share.refined * float(share.measurement.step):,.6g}",
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
