"""Check the order of the steps of a reservation; the ledger writes them in no other order.

A reservation is charged from the moment at which it is written. The step `read` is written before
the first row about people is read, and so before there is any result that depends on a row, with or
without noise. A reservation without `read` has certainly released nothing, and may be refunded. A
reservation with `read` stays charged permanently, however its run ends. A reservation of format 1,
which has no step `read`, also stays charged: its run may have left noisy answers in a private
folder. The step `publish` is written right before the rename that makes a release readable, and
`commit` after the rename. A `commit` has the digest of the manifest, an empty text for an answer
without a manifest, or null for a run that failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

OPEN, SIGNERS, RESERVE, READ, PUBLISH, COMMIT, CANCEL = (
    "open", "signers", "reserve", "read", "publish", "commit", "cancel",
)  # fmt: skip

FOLLOWING: dict[tuple[str, ...], frozenset[str]] = {
    # Ledgers of format 1 have no `read`: the step after the reservation was `publish` or `commit`.
    (): frozenset({READ, PUBLISH, COMMIT, CANCEL}),
    (READ,): frozenset({PUBLISH, COMMIT}),
    (PUBLISH,): frozenset({COMMIT}),
    (READ, PUBLISH): frozenset({COMMIT}),
}
"""The allowed kinds of the next step, by the previous steps."""


def problem_of(steps: Sequence[str], body: dict[str, Any]) -> str | None:
    """Return why a step can't follow the earlier steps of its reservation; None if it can."""
    kind = str(body["kind"])
    if kind not in FOLLOWING.get(tuple(steps), ()):
        return f"'{kind}' can't follow '{steps[-1] if steps else RESERVE}'"
    if kind == COMMIT and body.get("manifest") is not None:
        if not steps:
            return "an answer was committed for which no row was read"
        if body["manifest"] and PUBLISH not in steps:
            return "a release was committed that was never published"
    return None
