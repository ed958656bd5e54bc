"""Signatures of audits, verified by the same command as those of releases."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dprelease
from dprelease.cli import app
from dprelease.documents.audit_record import (
    FORMAT,
    Audit,
    audit_to_json,
    digest_of,
    encode_audit,
)
from dprelease.documents.encoding import AUDIT, canonical
from dprelease.errors import SignatureError
from dprelease.signatures.sshsig import AUDITS, ENTRIES, MANIFESTS, Signature
from dprelease.verification.after_publication.signing import sign_audit
from tests.signatures.keys import VECTORS, held, openssh_takes, other_key, public

WHO = "steward@office"
SIGNATURE = f"{AUDIT}.sig"
RECORD = {
    "format": FORMAT, "version": "1.0", "title": "People", "declaration": "0" * 64,
    "engine": "duckdb", "queries": [], "whole": True, "complete": True, "holds": True,
    "tried": [], "left_out": [], "sensitivities": [], "twins": None, "canaries": None,
    "black_box": None, "findings": [], "digest": "0" * 64,
}  # fmt: skip


def outcome(**fields: object) -> bytes:
    draft = Audit.model_validate({**RECORD, **fields})
    return encode_audit(draft.model_copy(update={"digest": digest_of(audit_to_json(draft))}))


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    """Return the signed outcome of an audit."""
    path = tmp_path / AUDIT
    path.write_bytes(outcome())
    sign_audit(path, held(tmp_path))
    return path


def listed(folder: Path, line: str = f"{WHO} {public()}") -> Path:
    path = folder / "allowed_signers"
    path.write_text(f"{line}\n")
    return path


def run_verify(path: Path, *more: str) -> tuple[int, dict[str, object]]:
    done = CliRunner().invoke(app, ["verify", str(path), "--json", *more])
    return done.exit_code, json.loads(done.stdout)


@pytest.mark.parametrize("namespaces", ["", 'namespaces="dprelease-audit" '])
def test_verify_names_the_signer(audit: Path, namespaces: str) -> None:
    signers = listed(audit.parent, f"{WHO} {namespaces}{public()}")
    code, found = run_verify(audit, "--signers", str(signers))
    assert code == 0
    assert found["findings"] == []
    signature = found["signature"]
    assert isinstance(signature, dict)
    assert signature["principals"] == WHO
    assert dprelease.verify(audit, signers=signers).signature == signature
    assert openssh_takes(signers, WHO, AUDITS, audit.with_name(SIGNATURE), audit.read_bytes())
    words = CliRunner().invoke(app, ["verify", str(audit), "--signers", str(signers)]).output
    assert f"signed by {WHO}" in words
    assert "private" not in words


def test_verify_without_signers_notes_unchecked_signature(audit: Path) -> None:
    code, found = run_verify(audit)
    assert code == 0
    assert found["signature"] is None
    assert SIGNATURE in str(found["notes"])
    audit.with_name(SIGNATURE).unlink()
    assert run_verify(audit)[1]["notes"] == []
    broken = audit.with_name("other.json")
    leaks = {"columns": 1, "searched": 1, "failures": 0, "holds": False}
    broken.write_bytes(outcome(holds=False, complete=False, canaries=leaks))
    assert "not all held, and not everything was tested" in str(run_verify(broken)[1]["checked"])


def remove_signature(audit: Path) -> None:
    audit.with_name(SIGNATURE).unlink()


def link_signature(audit: Path) -> None:
    kept = audit.with_name(SIGNATURE).rename(audit.with_name("kept"))
    audit.with_name(SIGNATURE).symlink_to(kept)


def truncate_signature(audit: Path) -> None:
    audit.with_name(SIGNATURE).write_bytes(audit.with_name(SIGNATURE).read_bytes()[:100])


def write_ecdsa_signature(audit: Path) -> None:
    shutil.copy(VECTORS / "message.txt.ecdsa.sig", audit.with_name(SIGNATURE))


def write_other_audit(audit: Path) -> None:
    audit.write_bytes(outcome(title="Others"))


def change_title(audit: Path) -> None:
    record = json.loads(audit.read_bytes())
    audit.write_bytes(canonical({**record, "title": "Others"}))


def append_space(audit: Path) -> None:
    audit.write_bytes(audit.read_bytes() + b" ")


def sign_with_other_key(audit: Path) -> None:
    sign_audit(audit, other_key(), overwrite=True)


def sign_as_manifest(audit: Path) -> None:
    made = held(audit.parent).sign(audit.read_bytes(), MANIFESTS)
    audit.with_name(SIGNATURE).write_bytes(made.to_armor())


def forge_namespace(audit: Path) -> None:
    made = held(audit.parent).sign(audit.read_bytes(), ENTRIES)
    audit.with_name(SIGNATURE).write_bytes(Signature(made.public, AUDITS, made.raw).to_armor())


def change_nothing(audit: Path) -> None:
    pass


BAD: list[tuple[list[str], Callable[[Path], None], str]] = [
    (["DP-VERIFY-014"], remove_signature, ""),
    (["DP-VERIFY-014"], link_signature, ""),
    (["DP-VERIFY-015"], truncate_signature, ""),
    (["DP-VERIFY-015"], write_ecdsa_signature, ""),
    (["DP-VERIFY-016"], write_other_audit, ""),
    (["DP-VERIFY-016"], forge_namespace, ""),
    (["DP-AUDIT-009", "DP-VERIFY-016"], change_title, ""),
    (["DP-AUDIT-009", "DP-VERIFY-016"], append_space, ""),
    (["DP-VERIFY-017"], sign_with_other_key, ""),
    (["DP-VERIFY-018"], sign_as_manifest, ""),
    (["DP-VERIFY-018"], change_nothing, 'namespaces="dprelease-manifest" '),
    (["DP-VERIFY-018"], change_nothing, 'valid-before="20200101" '),
]


@pytest.mark.parametrize(("codes", "spoil", "options"), BAD)
def test_bad_signatures_of_audits_are_found(
    audit: Path, codes: list[str], spoil: Callable[[Path], None], options: str
) -> None:
    spoil(audit)
    signers = listed(audit.parent, f"{WHO} {options}{public()}")
    found = dprelease.verify(audit, signers=signers)
    assert [finding.code for finding in found.findings] == codes
    assert found.signature is None
    for finding in found.findings:
        assert "release" not in finding.cause.replace("dprelease", "")
        assert "no row was read" in str(finding)
    code, shown = run_verify(audit, "--signers", str(signers))
    assert code == 4
    assert shown["ok"] is False


def test_options_for_releases_are_refused_for_audits(audit: Path) -> None:
    for option in ("--certify", "--rehearsal", f"--ledger={audit}"):
        assert CliRunner().invoke(app, ["verify", str(audit), option]).exit_code == 2
    none = audit.with_name("none")
    with pytest.raises(SignatureError) as refused:
        dprelease.verify(audit, signers=none)
    assert refused.value.code == "DP-SIGN-008"
    found = dprelease.verify(listed(audit.parent))
    assert [finding.code for finding in found.findings] == ["DP-AUDIT-009"]
