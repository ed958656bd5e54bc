"""Reports are the same bytes in every process: whatever its language, place, time and settings."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from tests import processes
from tests.exports import full_release
from tests.replay import Keyed
from tests.report.releases import write

ROOT = Path(__file__).parents[2]

PLACES = """
import sys
from pathlib import Path
import dprelease

ok = dprelease.verify(sys.argv[1])
assert ok.ok, ok.findings
assert any("format report" in line for line in ok.checked), ok.notes
for i, name in enumerate(sys.argv[2:-1]):
    dprelease.write_report(Path(name), Path(sys.argv[-1]) / f"{i}.html")
"""

COMMA = (
    "import locale\nlocale._override_localeconv = {'decimal_point': ',', 'thousands_sep': '.'}\n"
)
"""How Python's own tests let a locale have a comma."""

SETTINGS: dict[str, dict[str, str]] = {
    "a place where text is ASCII": {
        "LC_ALL": "POSIX",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONUTF8": "0",
        "PYTHONHASHSEED": "1",
    },
    "another language, time and order of sets": {
        "LANG": "tr_TR.UTF-8",
        "LC_ALL": "tr_TR.UTF-8",
        "LANGUAGE": "tr",
        "TZ": "Pacific/Kiritimati",
        "PYTHONHASHSEED": "2",
        "COLUMNS": "20",
        "SOURCE_DATE_EPOCH": "1",
    },
    "another time": {
        "TZ": "America/St_Johns",
    },
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return a release with a report among its formats, and a rehearsal; their names are ASCII."""
    folder = tmp_path_factory.mktemp("places")
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    text = full_release.RELEASE.replace("Größe", "size")
    path = full_release.write_release(folder / "a", text + "formats: [csv, report, datapackage]\n")
    for name in ("people.yaml", "people.csv"):
        held = (folder / "a" / name).read_text(encoding="utf-8").replace("Größe", "size")
        (folder / "a" / name).write_text(held, encoding="utf-8")
    release = run(read_declaration(path), bits=Keyed("places"))
    path, rehearsal = write(folder / "b", "several"), folder / "rehearsed"
    words = ["rehearse", str(path), "--output", str(rehearsal), "--rows", "300"]
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code == 0, done.output
    return [release, rehearsal]


@pytest.mark.audit
@pytest.mark.parametrize("what", SETTINGS)
def test_report_is_reproducible_in_any_environment(
    what: str, folders: list[Path], tmp_path: Path
) -> None:
    """Inside of a release by who verifies it; beside a release and a rehearsal by the command."""
    (tmp_path / "sitecustomize.py").write_text(COMMA)
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in ("PATH", "HOME") or name.startswith("OPENBLAS")  # a library's numbers, not ours
    }
    places = os.pathsep.join((str(tmp_path), str(ROOT)))
    words = [sys.executable, "-c", PLACES, *map(str, folders), str(tmp_path)]
    done = processes.run(
        words, env={**kept, "PYTHONPATH": places, **SETTINGS[what]}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for i, folder in enumerate(folders[1:]):
        here = dprelease.write_report(folder, tmp_path / f"here-{i}.html")
        assert (tmp_path / f"{i}.html").read_bytes() == here.read_bytes(), folder
