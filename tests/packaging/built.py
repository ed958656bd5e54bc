"""The package as it is built and installed, from a copy of the sources alone."""

from __future__ import annotations

import shutil
import sys
import tomllib
from pathlib import Path

from tests import processes

ROOT = Path(__file__).parents[2]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "dprelease")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
"""Versions of Python that the package is for."""


def copied(folder: Path) -> Path:
    """Return a folder with the files that a build reads, and no others."""
    folder.mkdir(parents=True)
    for name in SOURCES:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def build(folder: Path) -> dict[str, Path]:
    """Return the wheel and the archive of sources, built in a folder, by their kinds."""
    source, out = copied(folder / "source"), folder / "dist"
    words = [sys.executable, "-m", "build", "--outdir", out, source]
    done = processes.run(words, capture_output=True, text=True, patience=240)
    assert done.returncode == 0, done.stderr
    (wheel,), (archive,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return {"wheel": wheel, "archive": archive}


def files_of_the_package() -> dict[str, bytes]:
    """Return every file of the package by its name in a wheel."""
    found = (path for path in (ROOT / "dprelease").rglob("*") if path.is_file())
    return {
        path.relative_to(ROOT).as_posix(): path.read_bytes()
        for path in found
        if "__pycache__" not in path.parts
    }


def install(python: Path | str, folder: Path, *what: str) -> Path:
    """Return the programs of a virtual environment in which something is installed."""
    processes.run([python, "-m", "venv", folder], check=True, capture_output=True)
    # Isolated (-I): what PYTHONPATH names counts as installed otherwise, and nothing is installed.
    pip = [folder / "bin/python", "-I", "-m", "pip"]
    words = [*pip, "install", "--quiet", "--no-cache-dir", *what]
    done = processes.run(words, capture_output=True, text=True, patience=1800)
    assert done.returncode == 0, done.stderr
    return folder / "bin"
