"""What a release claims altogether, priced again from the noise that its plan draws.

Neighbours show by how much each measurement moves, and not what all of them cost together. That is
found here by code that the planner does not use: from below by the masses of the integers, and from
above in balls and whole numbers. A claim that is too small is seen however little it is so.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dprelease.auditing.failures import Told
from dprelease.auditing.stage import Stage
from dprelease.documents.audits.audit_record import Found, Untried
from dprelease.planning.federated_plan import FederatedPlan
from dprelease.planning.local_plan import LocalPlan

if TYPE_CHECKING:
    from dprelease.privacy.event import Event
    from dprelease.privacy.guarantee import Guarantee
    from dprelease.verification.certificate.verdicts import CertifiedClaim

TOGETHER = " of all measurements together"
SUMS = "a proof of what sums of several parties' messages cost"

MOST_SLOTS = 1000
"""Parts of a change, of all measurements, up to which a proof takes seconds."""


def composed_claims(stage: Stage, until: float, told: Told) -> tuple[list[Found], list[Untried]]:
    """Return which claims of the plan are false, and which have no proof.

    `until`: the time, as `time.monotonic` tells it, after which nothing is begun.
    """
    from dprelease.verification.certificate.verdicts import Verdict
    from dprelease.verification.second_opinion import second_opinion

    if time.monotonic() > until:
        told.left_out.append("what all measurements cost together")
        return [], []
    events, guarantee = _events_and_guarantee(stage)
    findings = list[Found]()
    opinion = second_opinion(events, guarantee)
    if opinion.contradicted:
        claimed, seen = f"{opinion.counted} {opinion.claimed:.9g}", f"{opinion.at_least:.9g}"
        findings.append(_make_finding(claimed, f"at least {seen}, by the masses of the noise"))
    if sum(event.sensitivity.slots for event in events) > MOST_SLOTS:
        told.left_out.append("a proof of what so many measurements cost together")
        return findings, []
    verdicts = _verdicts(events, guarantee)
    told.tried += [f"{one.claim.words}{TOGETHER}: {one.verdict.value}" for one in verdicts]
    findings += [
        _make_finding(f"{one.claim.words} is {float(one.claim.claimed):.9g}", _proof_text(one))
        for one in verdicts
        if one.verdict is Verdict.REFUSED
    ]
    words = [f"a proof of {one.claim.words}" for one in verdicts if one.verdict is Verdict.OPEN]
    words += [SUMS] * isinstance(stage.plan, FederatedPlan)
    return findings, [Untried(query="", column="", mechanism=what) for what in words]


def _events_and_guarantee(stage: Stage) -> tuple[list[Event], Guarantee]:
    """Return the noise that is drawn, and the guarantee that the plan claims of all of it."""
    plan = stage.plan
    if isinstance(plan, FederatedPlan):  # as verification does: of one party's messages alone
        alone = next(trust.guarantee for trust in plan.trusts if trust.honest == 1)
        return [share.fine_event for share in plan.shares], alone
    columns = plan.columns if isinstance(plan, LocalPlan) else plan.noisy_columns
    return [column.event for column in columns], plan.guarantee


def _verdicts(events: Sequence[Event], guarantee: Guarantee) -> Sequence[CertifiedClaim]:
    from dprelease.verification.certificate.certify import certify, claims_of

    return certify(events, claims_of(guarantee.to_json())).claims


def _proof_text(one: CertifiedClaim) -> str:
    return (
        "nothing is proved" if one.at_most is None else f"no more than {one.at_most:.9g} is proved"
    )


def _make_finding(claimed: str, seen: str) -> Found:
    return Found(check="composition", query="", column="", claimed=claimed, seen=seen, pair="")
