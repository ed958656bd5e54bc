"""Differentially private data releases: bounded aggregates, exact noise, one manifest.

`import dprelease` loads no heavy library. The first use of `dprelease.Session` or `dprelease.dp`
imports pandas and registers the accessor `df.dp`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from dprelease.version import __version__

if TYPE_CHECKING:
    from dprelease.accessor.frame import dp
    from dprelease.accessor.frame_notes import answer_details
    from dprelease.accessor.labelled_answers import labelled
    from dprelease.accessor.session import Session
    from dprelease.auditing.breach_files import audit
    from dprelease.errors import (
        BudgetError,
        DataError,
        DeclarationError,
        DpReleaseError,
        Findings,
        LedgerError,
        OutputError,
        QueryError,
        SessionError,
        SignatureError,
        UnavailableError,
        UsageError,
        VerificationError,
    )
    from dprelease.planning.auto.single_mechanism import calibrate
    from dprelease.profile.look import profile_release
    from dprelease.rehearsal.rehearse import rehearse
    from dprelease.release.accounts import read_ledger
    from dprelease.release.api import Release, check, plan, read_release, run
    from dprelease.release.question import sql
    from dprelease.signatures.keys import signing_key
    from dprelease.verification.after_publication.area_sums import areas
    from dprelease.verification.after_publication.changes import compare
    from dprelease.verification.after_publication.export_copy import export
    from dprelease.verification.after_publication.published_release import PublishedRelease
    from dprelease.verification.after_publication.record_estimates import local_estimate
    from dprelease.verification.after_publication.report_writing import write_report
    from dprelease.verification.after_publication.signing import sign
    from dprelease.verification.after_publication.store_export import (
        export_to_database,
        export_to_store,
    )
    from dprelease.verification.party_messages import federated_sum
    from dprelease.verification.verify import verify

__all__ = [
    "BudgetError",
    "DataError",
    "DeclarationError",
    "DpReleaseError",
    "Findings",
    "LedgerError",
    "OutputError",
    "PublishedRelease",
    "QueryError",
    "Release",
    "Session",
    "SessionError",
    "SignatureError",
    "UnavailableError",
    "UsageError",
    "VerificationError",
    "__version__",
    "answer_details",
    "areas",
    "audit",
    "calibrate",
    "check",
    "compare",
    "dp",
    "errors",
    "export",
    "export_to_database",
    "export_to_store",
    "federated_sum",
    "labelled",
    "local_estimate",
    "mechanisms",
    "plan",
    "profile_release",
    "read_ledger",
    "read_release",
    "rehearse",
    "run",
    "sign",
    "signing_key",
    "sql",
    "verify",
    "write_report",
]

_HOMES = {
    "Release": "dprelease.release.api",
    "PublishedRelease": "dprelease.verification.after_publication.published_release",
    "Session": "dprelease.accessor.frame",  # which registers `df.dp`, where sessions are used
    "answer_details": "dprelease.accessor.frame_notes",
    "audit": "dprelease.auditing.breach_files",
    "areas": "dprelease.verification.after_publication.area_sums",
    "calibrate": "dprelease.planning.auto.single_mechanism",
    "compare": "dprelease.verification.after_publication.changes",
    "check": "dprelease.release.api",
    "dp": "dprelease.accessor.frame",
    "export": "dprelease.verification.after_publication.export_copy",
    "export_to_database": "dprelease.verification.after_publication.store_export",
    "export_to_store": "dprelease.verification.after_publication.store_export",
    "federated_sum": "dprelease.verification.party_messages",
    "labelled": "dprelease.accessor.labelled_answers",
    "local_estimate": "dprelease.verification.after_publication.record_estimates",
    "plan": "dprelease.release.api",
    "profile_release": "dprelease.profile.look",
    "read_ledger": "dprelease.release.accounts",
    "read_release": "dprelease.release.api",
    "rehearse": "dprelease.rehearsal.rehearse",
    "run": "dprelease.release.api",
    "sign": "dprelease.verification.after_publication.signing",
    "signing_key": "dprelease.signatures.keys",
    "sql": "dprelease.release.question",
    "verify": "dprelease.verification.verify",
    "write_report": "dprelease.verification.after_publication.report_writing",
}


def __getattr__(name: str) -> object:
    """Return a public name, importing its module at first use."""
    if name in ("errors", "mechanisms"):
        return importlib.import_module(f"dprelease.{name}")
    if name in __all__ and name not in _HOMES:
        return getattr(importlib.import_module("dprelease.errors"), name)
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'dprelease' has no attribute {name!r}")


def load_ipython_extension(shell: object) -> None:
    """Add `%%dpsql` to a notebook that runs `%load_ext dprelease`."""
    importlib.import_module("dprelease.accessor.notebook_magic").register(shell)


def __dir__() -> list[str]:
    return list(__all__)
