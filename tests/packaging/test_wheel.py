"""The wheel has all of the package and nothing else, and its metadata says what is true."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tarfile
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

from dprelease.version import __version__
from tests import processes
from tests.packaging.built import (
    PROJECT,
    ROOT,
    VERSIONS,
    build,
    files_of_the_package,
    install,
)


def python(version: str) -> str | None:
    """Return the program of a version of Python that can be started, if one is here.

    What has its name may start none: pyenv has such stand-ins, and its versions in folders.
    """
    folder = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    kept = sorted(folder.glob(f"{version}.*/bin/python{version}"))
    for program in (shutil.which(f"python{version}"), *map(str, kept)):
        if program is not None:
            told = processes.run([program, "-c", "import venv"], capture_output=True)
            if told.returncode == 0:
                return program
    return None


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def metadata(built: dict[str, Path]) -> Message:
    with zipfile.ZipFile(built["wheel"]) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith("dist-info/METADATA"))
        return message_from_string(wheel.read(name).decode())


def test_wheel_has_all_files_of_the_package(built: dict[str, Path]) -> None:
    """Each file with its bytes: templates, marks for type checkers and whatever else lies there."""
    with zipfile.ZipFile(built["wheel"]) as wheel:
        held = {name: wheel.read(name) for name in wheel.namelist() if ".dist-info/" not in name}
    wanted = files_of_the_package()
    assert sorted(held) == sorted(wanted)
    assert held == wanted
    assert "dprelease/py.typed" in held


def test_source_archive_can_be_built(built: dict[str, Path]) -> None:
    with tarfile.open(built["archive"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert set(files_of_the_package()) | {"pyproject.toml", "README.md", "LICENSE"} <= names
    assert not {name for name in names if name.startswith(("tests", "examples", "docs"))}


def test_twine_finds_no_problems(built: dict[str, Path]) -> None:
    words = [sys.executable, "-m", "twine", "check", "--strict", *built.values()]
    done = processes.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_metadata(metadata: Message) -> None:
    assert metadata["Name"] == "dprelease"
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "dprelease" in metadata.get_payload()  # type: ignore[operator]
    extras = metadata.get_all("Provides-Extra") or []
    assert set(extras) == set(PROJECT["optional-dependencies"])


def test_classifiers_of_python_versions(metadata: Message) -> None:
    """A classifier for each, from the oldest that is allowed on."""
    told = re.findall(r"Python :: (3\.\d+)", "\n".join(metadata.get_all("Classifier") or []))
    assert tuple(told) == VERSIONS
    assert metadata["Requires-Python"] == f">={VERSIONS[0]}"


def publishes(python: list[str], folder: Path, **environment: str) -> None:
    """Plan, publish and verify the NIST example in a copy, by a program that is not ours."""
    shutil.copytree(
        ROOT / "examples/nist_acs", folder / "nist_acs", ignore=shutil.ignore_patterns("out")
    )
    known = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    for words in (["check", "release.yaml"], ["run", "release.yaml"], ["verify", "out/persons"]):
        done = processes.run(
            [*python, "-m", "dprelease", *words],
            cwd=folder / "nist_acs",
            env={**known, **environment},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, (words, done.stderr)


@pytest.mark.audit
@pytest.mark.parametrize("version", VERSIONS)
def test_wheel_installs(built: dict[str, Path], tmp_path: Path, version: str) -> None:
    """With every Python that is here, with what it depends on, and nothing of the sources."""
    program = python(version)
    if program is None:
        pytest.skip(f"there is no Python {version} here")
    programs = install(program, tmp_path / "env", str(built["wheel"]))
    publishes([str(programs / "python")], tmp_path)
    told = processes.run([programs / "dprelease", "--version"], capture_output=True, text=True)
    assert told.stdout.strip() == f"dprelease {__version__}"


def test_python_versions_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of its name, something of its name that starts none, one on the path, one of pyenv."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    for version in ("3.98", "3.96"):
        (tmp_path / f"python{version}").write_text("#!/bin/sh\nexit 127\n")
        (tmp_path / f"python{version}").chmod(0o755)
    kept = tmp_path / "versions/3.96.1/bin/python3.96"
    kept.parent.mkdir(parents=True)
    for path in (tmp_path / "python3.97", kept):
        path.symlink_to(sys.executable)
    found = [python(version) for version in ("3.99", "3.98", "3.97", "3.96")]
    assert found == [None, None, str(tmp_path / "python3.97"), str(kept)]
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in VERSIONS
