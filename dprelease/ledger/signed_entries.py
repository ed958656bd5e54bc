"""Sign and check entries, so that somebody who can write the file without a key can't forge them.

From the first entry of kind `signers` on, every entry is signed by a key in the latest list before
it. The first list is signed by one of its own keys. A signature covers the number of the entry, its
body, and the digest of the previous entry, which in turn covers all entries before it.

The validity of a key is checked at the time of the entry, or at the latest time of all earlier
entries if that time is later. So an expired key can't sign an entry with a time before that of the
last entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

from dprelease.errors import SignatureError
from dprelease.ledger.chain import SIGNERS, Entry, signed_text
from dprelease.ledger.periods import parse_utc_time
from dprelease.signatures.signers import Signers, signers_of
from dprelease.signatures.sshsig import ENTRIES, Signature, fingerprint

LIST_NAME = "signers"
"""The name in messages of a list of signers that is stored in the ledger."""


def signers_of_entry(entry: Entry) -> Signers:
    """Return the list of signers in a `signers` entry; raise SignatureError if it is invalid."""
    return signers_of(str(entry.body["signers"]), LIST_NAME)


def signers_without_local_times(text: str) -> Signers:
    """Return the list of signers in a text that is to be stored in a ledger.

    Raises SignatureError: DP-SIGN-007 for an invalid text, or for a text with times in local time.
    In another time zone, the signer of a valid entry might not be accepted, and the ledger would
    count as damaged.
    """
    signers = signers_of(text, LIST_NAME)
    if any(line.is_local for line in signers.lines):
        problem = "a ledger is read in several time zones, and so its times end with Z"
        raise SignatureError("DP-SIGN-007", problem=problem)
    return signers


def signature_problem(entry: Entry, signers: Signers, at: datetime | None) -> str | None:
    """Return why an entry has no valid signature at a time; None if it has one."""
    text = entry.body.get("signature")
    if not isinstance(text, str):
        return "it is not signed"
    signature = _valid_signature(text, signed_text(entry))
    if signature is None:
        return "its signature is none of it"
    verdict = signers.judge(
        signature.public, ENTRIES, at or parse_utc_time(str(entry.body["time"]))
    )
    if verdict.is_accepted:
        return None
    who = fingerprint(signature.public)
    return f"it is signed by {who}, {verdict.refusal or 'which is not one of the signers'}"


@lru_cache(maxsize=1 << 14)
def _valid_signature(armored: str, message: bytes) -> Signature | None:
    """Return the signature in a text; None unless it is valid for a message. Results are cached."""
    try:
        signature = Signature.from_armor(armored.encode())
    except ValueError:
        return None
    known = signature.namespace == ENTRIES and signature.holds(message)
    return signature if known else None


def problem_with_signers(entries: Sequence[Entry], signers: Signers) -> str | None:
    """Return why entries are not signed by the signers in a reader's list; None if they are.

    Somebody who can write the file can replace the whole history, including the list of signers.
    Only a comparison with the reader's list detects this.
    """
    first = next((i for i, entry in enumerate(entries) if entry.kind == SIGNERS), None)
    if first is None:
        return "none of its entries is signed"
    at = None
    for entry in entries[first:]:
        now = parse_utc_time(str(entry.body["time"]))
        at = now if at is None else max(now, at)
        problem = signature_problem(entry, signers, at)
        if problem is not None:
            return f"entry {entry.number}: {problem}"
    return None
