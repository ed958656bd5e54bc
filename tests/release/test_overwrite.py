"""--overwrite replaces one release and nothing else (V67)."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dprelease.documents.encoding import NAME as MANIFEST
from dprelease.errors import OutputError, State
from dprelease.ledger.ledger import Ledger
from dprelease.release import folder
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.system import renaming
from dprelease.system.renaming import is_mounted
from dprelease.verification.verify import verify
from tests import processes
from tests.ledger.test_ledger import release_with_ledger

ROOT = Path(__file__).parents[2]


def another_release(target: Path) -> Path:
    return Path(shutil.copytree(target, target / "nested")) / MANIFEST


def file(name: str) -> Callable[[Path], Path]:
    def put(target: Path) -> Path:
        (target / name).write_text("mine")
        return target / name

    return put


def folder_of_a_table(target: Path) -> Path:
    (target / "by_city.parquet").unlink()
    (target / "by_city.parquet").mkdir()
    return file("by_city.parquet/mine")(target)


def link(target: Path) -> Path:
    (target / "elsewhere").symlink_to("/")
    return target / "elsewhere"


BESIDE = {
    "another release": another_release,
    "the source": file("people.csv"),
    "a ledger": file("ledger.sqlite"),
    "a hidden file": file(".notes"),
    "a folder with a table's name": folder_of_a_table,
    "a link": link,
}


@pytest.mark.share(0.25)
@pytest.mark.parametrize("late", [False, True], ids=["before", "during the run"])
@pytest.mark.parametrize("put", BESIDE.values(), ids=BESIDE)
def test_overwrite_refuses_folders_with_other_files(
    put: Callable[[Path], Path], late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = release_with_ledger(tmp_path)
    target = run(read_declaration(path))
    before = (target / MANIFEST).read_bytes()
    real, kept = folder.Claim.sync_files, []

    def store(claim: Any) -> None:
        kept.append(put(target))
        real(claim)

    if late:
        monkeypatch.setattr(folder.Claim, "sync_files", store)
    else:
        kept.append(put(target))
    with pytest.raises(OutputError, match="DP-OUTPUT-009") as caught:
        run(read_declaration(path), overwrite=True)
    assert os.path.lexists(kept[0])
    assert (target / MANIFEST).read_bytes() == before
    assert os.listdir(target.parent) == ["people"]
    assert caught.value.state is (State.CHARGED if late else State.NOTHING)
    charged = Ledger(tmp_path / "ledger.sqlite").state().reservations.values()
    assert sum(r.is_charged for r in charged) == 1 + late


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"files": 1}', '{"files": [{}]}', "[" * 10**5])
def test_overwrite_refuses_folders_that_are_no_release(text: str, tmp_path: Path) -> None:
    declaration = read_declaration(release_with_ledger(tmp_path))
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / MANIFEST).write_text(text)
    with pytest.raises(OutputError, match="DP-OUTPUT-003") as caught:
        run(declaration, output=tmp_path / "web", overwrite=True)
    assert caught.value.state is State.NOTHING
    assert os.listdir(tmp_path / "web") == [MANIFEST]


@pytest.mark.parametrize("name", [".", "..", "../people", "../../out/people", "nowhere/.."])
def test_overwrite_from_inside_the_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No rename takes "." or "..": the folder's own name is meant."""
    path = release_with_ledger(tmp_path)
    target = run(read_declaration(path))
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside if name == ".." else target)
    output = Path(os.path.relpath(target)) / "x" / ".." if name == ".." else Path(name)
    before = json.loads((target / MANIFEST).read_bytes())["digest"]
    declaration = read_declaration(path)
    made = run(declaration, output=output, overwrite=True)
    assert made.samefile(target)
    assert json.loads((target / MANIFEST).read_bytes())["digest"] != before
    assert verify(target, ledger=tmp_path / "ledger.sqlite").ok
    assert os.listdir(tmp_path / "out") == ["people"]


MOUNTED = """
set -e
mount --bind "$0" "$0"
"$1" - "$2" "$0" <<'END'
import sys
from pathlib import Path
from dprelease.errors import OutputError
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
try:
    run(read_declaration(Path(sys.argv[1])), output=Path(sys.argv[2]), overwrite=True)
except OutputError as problem:
    print(problem.code, problem.state.name)
END
"""


@pytest.mark.share(0.25)
@pytest.mark.parametrize("name", ["people", "two words", "back\\slash", "ü"])
def test_overwrite_of_a_mount_is_refused_before_charge(name: str, tmp_path: Path) -> None:
    """A folder of a container may be a mount, which no rename can replace."""
    own = processes.unshared(*processes.OWN_MOUNTS)
    path = release_with_ledger(tmp_path)
    target = run(read_declaration(path), output=tmp_path / "out" / name)
    assert not is_mounted(target)
    done = processes.run(
        [*own, "bash", "-c", MOUNTED, str(target), sys.executable, str(path)],
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["DP-OUTPUT-010", "NOTHING"], done.stderr
    assert len(Ledger(tmp_path / "ledger.sqlite").state().reservations) == 1


def test_mounts_without_a_list_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_mounted(Path("/"))
    monkeypatch.setattr("dprelease.system.renaming.MOUNTS", Path("/nowhere"))
    assert is_mounted(Path("/"))
    assert not is_mounted(ROOT / "tests")


def test_interrupt_between_the_renames_of_an_overwrite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without atomic exchange, the old release gets its name back at once."""
    path = release_with_ledger(tmp_path)
    target = run(read_declaration(path))
    before = (target / MANIFEST).read_bytes()
    real, calls = renaming.rename_new, []

    def interrupted(*given: Path) -> None:
        calls.append(given)
        if len(calls) == 1:
            raise KeyboardInterrupt
        real(*given)

    monkeypatch.setattr(renaming, "_rename_with_flags", lambda *_: False)
    monkeypatch.setattr(renaming, "rename_new", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(read_declaration(path), overwrite=True)
    assert (target / MANIFEST).read_bytes() == before
    assert os.listdir(tmp_path / "out") == ["people"]
