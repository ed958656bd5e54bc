"""Entries that are signed: who can write the file but has no key forges none.

From the first entry of the kind `signers` on, every entry is signed by a key that the list before
it names; the first list by a key of its own. A signature is over the number of the entry, the
digest of the one before, and its body: it vouches for all that came before.

Whether a key counts is asked at the time that the entry tells, or the latest one before it if that
is later: a key that is out of date can't sign an entry that claims to be older than the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

from dprelease.errors import SignatureError
from dprelease.ledger.chain import Entry, signed_text
from dprelease.ledger.periods import moment_of
from dprelease.ledger.steps import SIGNERS
from dprelease.signatures.signers import Signers, signers_of
from dprelease.signatures.sshsig import ENTRIES, Signature, fingerprint

LIST = "signers"
"""What messages call a list that is in the ledger."""


def signers_of_entry(entry: Entry) -> Signers:
    """Return the list of an entry that has one; raises SignatureError for a text that is none."""
    return signers_of(str(entry.body["signers"]), LIST)


def lasting_list(text: str) -> Signers:
    """Return the list of a text that is to be in a ledger.

    Raises
    ------
    SignatureError
        DP-SIGN-007 for a text that is none, or whose times are those of whoever reads it: in
        another time zone an entry that counts here would be by nobody, and the ledger damaged.
    """
    made = signers_of(text, LIST)
    if any(line.is_local for line in made.lines):
        problem = "a ledger is read in several time zones, and so its times end with Z"
        raise SignatureError("DP-SIGN-007", problem=problem)
    return made


def problem_of(entry: Entry, signers: Signers, at: datetime | None) -> str | None:
    """Return why an entry is not signed by one who may at a time; None if it is."""
    text = entry.body.get("signature")
    if not isinstance(text, str):
        return "it is not signed"
    signature = _valid_signature(text, signed_text(entry))
    if signature is None:
        return "its signature is none of it"
    verdict = signers.judge(signature.public, ENTRIES, at or moment_of(str(entry.body["time"])))
    if verdict.is_accepted:
        return None
    who = fingerprint(signature.public)
    return f"it is signed by {who}, {verdict.refusal or 'which is not one of the signers'}"


@lru_cache(maxsize=1 << 14)
def _valid_signature(armored: str, message: bytes) -> Signature | None:
    """Return a signature that holds; what was checked once is not checked again."""
    try:
        signature = Signature.from_armor(armored.encode())
    except ValueError:
        return None
    known = signature.namespace == ENTRIES and signature.holds(message)
    return signature if known else None


def outside_problem(entries: Sequence[Entry], signers: Signers) -> str | None:
    """Return what contradicts a list of signers that is kept elsewhere than in the ledger.

    Whoever can write the file can write another history with another list into it: only what is
    compared with a list of one's own shows that.
    """
    first = next((i for i, entry in enumerate(entries) if entry.kind == SIGNERS), None)
    if first is None:
        return "none of its entries is signed"
    at = None
    for entry in entries[first:]:
        now = moment_of(str(entry.body["time"]))
        at = now if at is None else max(now, at)
        problem = problem_of(entry, signers, at)
        if problem is not None:
            return f"entry {entry.number}: {problem}"
    return None
