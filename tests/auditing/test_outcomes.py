"""The outcome of an audit: written, named by releases, verified, signed, or refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import jsonschema
import pytest
from typer.testing import CliRunner

import dprelease
from dprelease.auditing import breach_files, sensitivities, whole_audit
from dprelease.cli import app
from dprelease.cli.audit_command import audit_texts
from dprelease.documents.audit_record import (
    Audit,
    UntestedPart,
    audit_to_json,
    digest_of,
    digest_of_declaration,
    encode_audit,
    parse_audit,
)
from dprelease.documents.encoding import AUDIT, canonical, sha256
from dprelease.documents.json_schemas import render_schema as schema_of
from dprelease.errors import DpReleaseError
from dprelease.query.aggregates.sum import Sum
from dprelease.release.run_options import with_audit
from dprelease.schema.load import read_declaration
from dprelease.signatures.sshsig import AUDITS, Signature
from tests.auditing.build import IDS, read_release
from tests.auditing.test_sensitivities import claim_less
from tests.manifest_files import with_digest
from tests.signatures.keys import copied

UNTRIED = "not tried"
ASKED = {"q": {"from": "people", "group_by": ["sex"], "columns": {"pay": {"sum": "pay"}}}}


@pytest.fixture(autouse=True)
def _few_situations() -> Iterator[None]:
    with mock.patch.multiple(
        sensitivities, RANDOM_SITUATIONS=8, MOST_SITUATIONS=24, SEPARATE_PAIRS=1
    ):
        yield


@pytest.fixture(scope="module")
def release_and_audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a release and of its audit."""
    folder = tmp_path_factory.mktemp("made")
    read_release(folder, ASKED, mechanism="discrete_laplace")
    with mock.patch.multiple(
        sensitivities, RANDOM_SITUATIONS=8, MOST_SITUATIONS=24, SEPARATE_PAIRS=1
    ):
        done = CliRunner().invoke(
            app,
            [
                "audit",
                str(folder / "release.yaml"),
                "--no-draws",
                "--output",
                str(folder / "audit"),
            ],
        )
    assert done.exit_code == 0, done.output
    assert "All held." in done.output
    return folder


def outcome(folder: Path) -> Audit:
    return parse_audit((folder / "audit" / AUDIT).read_bytes())


def change_audit(audit: Audit, **fields: Any) -> bytes:
    """Return an outcome with other fields and a digest that matches."""
    record = {**audit_to_json(audit), **fields}
    record["digest"] = digest_of(record)
    return canonical(record)


def test_outcome_matches_its_schema(release_and_audit: Path) -> None:
    raw = (release_and_audit / "audit" / AUDIT).read_bytes()
    jsonschema.validate(json.loads(raw), json.loads(schema_of("audit")))
    told = parse_audit(raw)
    assert encode_audit(told) == raw
    assert told.holds
    assert told.whole
    assert told.declaration == digest_of_declaration(
        read_declaration(release_and_audit / "release.yaml")
    )
    assert told.sensitivities[0].ratio == 1.0


def test_release_names_its_audit(release_and_audit: Path, tmp_path: Path) -> None:
    """The audit is published with the release, listed with its digest, and reported by `verify`."""
    import pyarrow as pa

    rows = {"sex": ["f", "m"], "pay": [1.0, 2.0]}
    names = read_declaration(release_and_audit / "release.yaml").tables["people"].table.columns
    frame = pa.table({name: rows.get(name, [None, None]) for name in names})
    release = dprelease.read_release(release_and_audit / "release.yaml")
    folder = release.run(
        output=tmp_path / "out", frames={"people": frame}, audit=release_and_audit / "audit" / AUDIT
    )
    assert (folder / AUDIT).read_bytes() == (release_and_audit / "audit" / AUDIT).read_bytes()
    report = dprelease.verify(folder)
    assert report.ok
    assert any("names an audit" in words for words in report.checked)
    page = dprelease.write_report(folder).read_text(encoding="utf-8")
    assert "The audit of this declaration" in page
    assert "100 %" in page
    assert UNTRIED not in page
    again = release.run(output=folder, frames={"people": frame}, overwrite=True)
    assert not (again / AUDIT).exists()
    forge_audit(folder := release.run(
        output=tmp_path / "forged", frames={"people": frame}, audit=release_and_audit / "audit" / AUDIT
    ), change_audit(outcome(release_and_audit), declaration="0" * 64))  # fmt: skip
    assert "DP-AUDIT-007" in {finding.code for finding in dprelease.verify(folder).findings}


def test_untested_draws_are_reported(release_and_audit: Path, tmp_path: Path) -> None:
    """On the terminal and in the report, beside what they did reach; such an audit may be named."""
    import pyarrow as pa

    one = {"query": "q", "column": "pay", "mechanism": "discrete_laplace"}
    bound = {
        **one, "mechanism": "releases one by one", "draws": 10, "tested": 5, "hits": [1, 1],
        "claimed": 1.0, "delta": 0.0, "bound": 0.125, "statistic": "sum", "holds": True,
    }  # fmt: skip
    for bounds, least in (([], UNTRIED), ([bound], f"0.125, {UNTRIED}")):
        path = tmp_path / AUDIT
        path.write_bytes(
            change_audit(outcome(release_and_audit), not_tried=[one], black_box=bounds)
        )
        words = " ".join("\n".join(audit_texts(parse_audit(path.read_bytes()), wide=True)).split())
        assert "q.pay not tried 0 discrete_laplace" in words
        assert "says nothing about anything that was not tried" in words
        names = read_declaration(release_and_audit / "release.yaml").tables["people"].table.columns
        rows = {"sex": ["f", "m"], "pay": [1.0, 2.0]}
        frame = pa.table({name: rows.get(name, [None, None]) for name in names})
        folder = dprelease.read_release(release_and_audit / "release.yaml").run(
            output=tmp_path / f"out{len(bounds)}", frames={"people": frame}, audit=path
        )
        assert least in dprelease.write_report(folder).read_text(encoding="utf-8")
    jsonschema.validate(json.loads(path.read_bytes()), json.loads(schema_of("audit")))


def forge_audit(folder: Path, raw: bytes) -> None:
    """Put another audit in a release's folder, with the digests that it takes."""
    (folder / AUDIT).write_bytes(raw)
    record = json.loads((folder / "manifest.json").read_bytes())
    record["declaration"]["audit"]["sha256"] = sha256(raw)
    (folder / "manifest.json").write_bytes(canonical(with_digest(record)))


FOUND = {
    "check": "twins", "query": "", "column": "", "claimed": "the same", "seen": "another", "pair": "",
}  # fmt: skip


def change_first_measurement(audit: Audit, **fields: Any) -> bytes:
    """Return an outcome with another first measurement."""
    first, *more = audit_to_json(audit)["sensitivities"]
    return change_audit(audit, sensitivities=[{**first, **fields}, *more])


def mark_as_failed(audit: Audit) -> bytes:
    """Return an outcome that reports a failure."""
    told = parse_audit(change_audit(audit))
    twins = None if told.twins is None else {**audit_to_json(told)["twins"], "holds": False}
    return change_audit(audit, holds=False, findings=[FOUND], twins=twins)


REFUSED: dict[str, tuple[Callable[[Audit], bytes], str]] = {
    "no JSON": (lambda _: b"{", "DP-AUDIT-003"),
    "another document": (lambda _: b"{}\n", "DP-AUDIT-003"),
    "changed": (lambda a: encode_audit(a).replace(b'"pairs": ', b'"pairs": 1'), "DP-AUDIT-003"),
    "an unknown key": (lambda a: change_audit(a, more=1), "DP-AUDIT-003"),
    "of another declaration": (lambda a: change_audit(a, declaration="0" * 64), "DP-AUDIT-004"),
    "of some queries": (lambda a: change_audit(a, whole=False), "DP-AUDIT-005"),
    "with a finding": (lambda a: mark_as_failed(a), "DP-AUDIT-005"),
    "nothing held, and nothing found": (lambda a: change_audit(a, holds=False), "DP-AUDIT-003"),
    "found, and held": (lambda a: change_audit(a, findings=[FOUND]), "DP-AUDIT-003"),
    "a measurement that did not hold": (
        lambda a: change_first_measurement(a, holds=False),
        "DP-AUDIT-003",
    ),
    "one that used too much": (lambda a: change_first_measurement(a, ratio=1.5), "DP-AUDIT-003"),
    "fewer pairs than none": (lambda a: change_first_measurement(a, pairs=-1), "DP-AUDIT-003"),
    "unfinished": (lambda a: change_audit(a, complete=False), "DP-AUDIT-005"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_audits_are_refused(name: str, release_and_audit: Path, tmp_path: Path) -> None:
    make, code = REFUSED[name]
    path = tmp_path / AUDIT
    path.write_bytes(make(outcome(release_and_audit)))
    with pytest.raises(DpReleaseError) as caught:
        with_audit(read_declaration(release_and_audit / "release.yaml"), path)
    assert caught.value.code == code


def test_audit_is_signed(release_and_audit: Path, tmp_path: Path) -> None:
    path = tmp_path / AUDIT
    path.write_bytes((release_and_audit / "audit" / AUDIT).read_bytes())
    key = copied(tmp_path)
    done = CliRunner().invoke(app, ["sign", str(path), "--key", str(key), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["namespace"] == AUDITS
    signature = Signature.from_armor((tmp_path / f"{AUDIT}.sig").read_bytes())
    assert signature.holds(path.read_bytes())
    again = CliRunner().invoke(app, ["sign", str(path), "--key", str(key)])
    assert "DP-SIGN-010" in again.output
    path.write_bytes(b"{}")
    other = CliRunner().invoke(app, ["sign", str(path), "--key", str(key), "--overwrite"])
    assert "DP-AUDIT-003" in other.output


def test_findings_can_be_reproduced(tmp_path: Path) -> None:
    """Exit code 4, the measurement, the claim, the observation, and two tables."""
    read_release(tmp_path, ASKED, mechanism="discrete_laplace")
    words = ["audit", str(tmp_path / "release.yaml"), "--no-draws", "--json"]
    with claim_less(Sum, 0.9):
        done = CliRunner().invoke(app, [*words, "--output", str(tmp_path / "found")])
    assert done.exit_code == 4, done.output
    told = json.loads(done.output)
    assert not told["holds"]
    assert {found["check"] for found in told["findings"]} == {"sensitivity"}
    assert told["findings"][0]["column"] == "pay"
    folder = tmp_path / "found" / "finding-1"
    assert {path.name for path in folder.iterdir()} >= {
        "release.yaml",
        "reproduce.py",
        "one",
        "other",
    }
    script = (folder / "reproduce.py").read_text().replace("__file__", repr(str(folder / "x")))
    exec(compile(script, "reproduce.py", "exec"), {})  # it publishes both sides
    assert dprelease.verify(folder / "out-one").ok


def test_reproduction_needs_no_ledger_or_other_folder(tmp_path: Path) -> None:
    """Tables lie above the release, and its ledger is not there: the script runs all the same."""
    asked = {"q": {**ASKED["q"], "group_by": ["code"]}}
    read_release(tmp_path, asked, IDS, mechanism="discrete_laplace")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    text = (tmp_path / "release.yaml").read_text()
    (tmp_path / "release.yaml").unlink()
    for name in ("people", "areas", "visits"):
        text = text.replace(f"- {name}.yaml", f"- ../../{name}.yaml")
    (below / "release.yaml").write_text(f"{text}ledger: {tmp_path / 'ledger.db'}\n")
    people = (tmp_path / "people.yaml").read_text()
    (tmp_path / "people.yaml").write_text(f"owner: office\n{people}")
    words = ["audit", str(below / "release.yaml"), "--no-draws", "--json"]
    with claim_less(Sum, 0.9):
        done = CliRunner().invoke(app, [*words, "--output", str(tmp_path / "found")])
    assert done.exit_code == 4, done.output
    moved = (tmp_path / "found").rename(tmp_path.parent / f"{tmp_path.name}-moved")
    shutil.rmtree(tmp_path)
    folder = moved / "finding-1"
    script = (folder / "reproduce.py").read_text().replace("__file__", repr(str(folder / "x")))
    exec(compile(script, "reproduce.py", "exec"), {})
    assert (folder / "out-other" / "manifest.json").exists()
    assert sorted(path.name for path in moved.iterdir()) == [AUDIT, "finding-1"]


@pytest.mark.audit
def test_outcome_is_written_completely_or_not(release_and_audit: Path, tmp_path: Path) -> None:
    """A disk that is full costs the file, and leaves no folder; what was found is told before."""
    words = [
        "audit",
        str(release_and_audit / "release.yaml"),
        "--no-draws",
        "--output",
        str(tmp_path / "new"),
    ]
    full = OSError(28, "No space left on device")
    with mock.patch.object(breach_files, "encode_audit", side_effect=full):
        done = CliRunner().invoke(app, words)
    assert "DP-OUTPUT-002" in done.output
    assert "All held." in done.output
    assert [*tmp_path.iterdir()] == []


def test_outcome_names_parts_beyond_the_time_limit(release_and_audit: Path) -> None:
    """No canary is planted when the time is up; questions that were not drawn are named."""
    told = dprelease.audit(release_and_audit / "release.yaml", time_limit=0.0, draws=False)
    assert (told.holds, told.complete, told.canaries) == (True, False, None)
    left = UntestedPart(query="q", column="rows", mechanism="discrete_laplace")
    with mock.patch.object(whole_audit, "_drawn_bounds", return_value=([], [left], [])):
        told = dprelease.audit(release_and_audit / "release.yaml", time_limit=600.0)
    assert (told.holds, told.complete, told.black_box, told.not_tried) == (True, True, [], [left])


def test_audit_of_all_queries_by_name_is_complete(release_and_audit: Path) -> None:
    for names in ((), ("q",)):
        told = dprelease.audit(
            release_and_audit / "release.yaml", queries=names, draws=False, time_limit=0.0
        )
        assert (told.whole, told.queries) == (True, ["q"])


def test_unknown_query_and_existing_folder_are_refused(release_and_audit: Path) -> None:
    words = ["audit", str(release_and_audit / "release.yaml"), "--no-draws"]
    done = CliRunner().invoke(app, [*words, "--query", "p"])
    assert (done.exit_code, "DP-AUDIT-001" in done.output) == (2, True)
    done = CliRunner().invoke(app, [*words, "--output", str(release_and_audit / "audit")])
    assert (done.exit_code, "DP-AUDIT-002" in done.output) == (2, True)


def test_findings_have_their_own_code(tmp_path: Path) -> None:
    read_release(tmp_path, ASKED, mechanism="discrete_laplace")
    with claim_less(Sum, 0.9):
        done = CliRunner().invoke(app, ["audit", str(tmp_path / "release.yaml"), "--no-draws"])
    assert done.exit_code == 4
    assert "DP-AUDIT-006" in done.output
