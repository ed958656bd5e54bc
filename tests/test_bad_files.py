"""Each bad file fails with exactly the code in its name, with a place; every code has a proof."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dprelease.errors import DpReleaseError, Findings, error_tree
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration

BAD = Path(__file__).parent / "bad"
FILES = sorted(path for path in BAD.glob("DP-*.yaml") if not path.name.endswith(".table.yaml"))
KINDS = [
    kind
    for kind in vars(error_tree).values()
    if isinstance(kind, type) and issubclass(kind, DpReleaseError)
]
CATALOGUE = {code for kind in KINDS for code in kind.templates}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_bad_file(path: Path, tmp_path: Path) -> None:
    code = path.name.split("_")[0]
    with pytest.raises(DpReleaseError) as caught:
        run(read_declaration(path), output=tmp_path / "out")
    error = caught.value
    several = error.errors if isinstance(error, Findings) else (error,)
    assert {finding.code for finding in several} == {code}, str(error)
    for finding in several:
        assert finding.cause
        assert finding.fix
        assert "{" not in finding.cause
        assert finding.state.value in str(finding)
        if not code.startswith("DP-DATA"):
            assert finding.place.file or finding.place.key
    assert list(tmp_path.iterdir()) == []


def test_every_code_has_a_bad_file_or_a_test() -> None:
    by_file = {path.name.split("_")[0] for path in FILES}
    listed = dict(re.findall(r"\| (DP-[A-Z]+-\d+) \| (\S+) \|", (BAD / "NOT_FILES.md").read_text()))
    assert by_file | set(listed) == CATALOGUE
    assert not by_file & set(listed)
    for place in listed.values():
        file, name = place.split("::")
        assert f"def {name}(" in (BAD.parents[1] / file).read_text(encoding="utf-8")


def test_codes_are_unique_and_classes_few() -> None:
    codes = [code for kind in KINDS for code in kind.templates]
    assert len(codes) == len(set(codes))
    assert len(KINDS) <= 17


def test_release_and_table_errors_come_together() -> None:
    """Mistakes in the release file and in its table are told at once."""
    text = (
        (BAD / "DP-SCHEMA-001_bounds_exchanged.yaml")
        .read_text()
        .replace("epsilon: 1", "epsilon: .inf, delta: x")
    )
    path = BAD / "tmp-several.yaml"
    path.write_text(text)
    try:
        with pytest.raises(Findings) as caught:
            read_declaration(path)
    finally:
        path.unlink()
    assert sorted(e.code for e in caught.value.errors) == [
        "DP-DECL-004",
        "DP-DECL-004",
        "DP-SCHEMA-001",
    ]
    assert caught.value.exit_code == 2
