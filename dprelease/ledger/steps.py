"""The allowed order of steps in a reservation; a ledger writes no other history.

A reservation is charged from the moment it is written. `read` is written before the first row about
people is read, so before anything exists that depends on a row, noised or not. A reservation
without it provably released nothing, and may be refunded. One with it stays charged permanently,
however its run ends. So does one of format 1, which has no such step: its run may have left noised
answers in a private folder. `publish` is written right before the one rename that makes a release
readable, `commit` after it: with the digest of its manifest, with an empty text for an answer
without a manifest, with nothing for a run that failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

OPEN, SIGNERS, RESERVE, READ, PUBLISH, COMMIT, CANCEL = (
    "open", "signers", "reserve", "read", "publish", "commit", "cancel",
)  # fmt: skip

FOLLOWING: dict[tuple[str, ...], frozenset[str]] = {
    # Ledgers of format 1 have no `read`: their next step was to publish, or to fail.
    (): frozenset({READ, PUBLISH, COMMIT, CANCEL}),
    (READ,): frozenset({PUBLISH, COMMIT}),
    (PUBLISH,): frozenset({COMMIT}),
    (READ, PUBLISH): frozenset({COMMIT}),
}
"""The allowed kinds of the next step, by the previous steps."""


def problem_of(steps: Sequence[str], body: dict[str, Any]) -> str | None:
    """Return why a step can't follow others of the same reservation; None if it can."""
    kind = str(body["kind"])
    if kind not in FOLLOWING.get(tuple(steps), ()):
        return f"'{kind}' can't follow '{steps[-1] if steps else RESERVE}'"
    if kind == COMMIT and body.get("manifest") is not None:
        if not steps:
            return "an answer was committed for which no row was read"
        if body["manifest"] and PUBLISH not in steps:
            return "a release was committed that was never published"
    return None
