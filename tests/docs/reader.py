"""A reader who does what a page says, from its first block to its last, in a folder of their own."""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from tests import processes
from tests.docs.fences import Block
from tests.signatures.keys import copied

RUNNER = CliRunner()
NESTED = ("queries", "columns")
"""Keys whose parts are added to what is there; of all others a part is the whole."""

NOT_RUN = ("cd ", "docker ", "pip ", "make ", "python -m examples.")
"""Commands of other programs, which other tests run, by what they begin with."""


def not_here() -> tuple[str, ...]:
    """Return the beginnings of commands that are not run: OpenSSH's, too, where it is missing."""
    return NOT_RUN if shutil.which("ssh-keygen") else (*NOT_RUN, "ssh-keygen")


class Reader:
    """Runs blocks; what Python blocks define lasts until the end of the page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "__main__"}

    def follow(self, block: Block) -> None:
        """Do what a block says; raise AssertionError if it does not work as it is shown."""
        match block.language:
            case "csv" | "yaml":
                self._write(block)
            case "console":
                for command, shown in commands(block.text):
                    self._type(command, shown)
            case "python":
                exec(compile(block.text, f"<line {block.line}>", "exec"), self.names)
            case "sql":
                dprelease.sql(block.text, self.folder / "people.yaml", epsilon=1)

    def _write(self, block: Block) -> None:
        assert block.file is not None, "which file is it?"
        path = self.folder / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        if not block.is_part:
            path.write_text(block.text, encoding="utf-8")
            return
        whole = added(_read(path.read_text(encoding="utf-8")), _read(block.text))
        path.write_text(yaml.safe_dump(whole, sort_keys=False), encoding="utf-8")

    def _type(self, command: str, shown: str) -> None:
        if command.startswith("dprelease "):
            told = self.told(command.removeprefix("dprelease "))
        elif command.startswith("ssh-keygen -t"):
            copied(self.folder).rename(self.folder / "steward")
            (self.folder / "id_ed25519.pub").rename(self.folder / "steward.pub")
            return
        elif command.startswith(not_here()):
            return
        else:
            done = processes.run(["sh", "-c", command], cwd=self.folder, capture_output=True)
            assert done.returncode == 0, (command, done.stderr)
            told = done.stdout.decode()
        assert looks_like(told, shown), f"$ {command}\nprints\n{told}\nand is shown with\n{shown}"

    def told(self, words: str) -> str:
        """Return what a command of dprelease prints, which has to end well."""
        done = RUNNER.invoke(cli.app, _words(words, self.folder), env={"COLUMNS": "110"})
        assert done.exit_code == 0, f"dprelease {words}\n{done.output}\n{done.stderr}"
        return done.stdout


def commands(text: str) -> list[tuple[str, str]]:
    """Return the commands of a block with what is shown below each."""
    lines = text.replace("\\\n", " ").splitlines()
    found: list[tuple[str, str]] = []
    for line in lines:
        if line.startswith("$ "):
            command = re.split(r"\s{2,}# |\s# ", line.removeprefix("$ "), maxsplit=1)[0]
            found.append((command.strip(), ""))
        else:
            assert found, f"what prints this? {line}"
            found[-1] = (found[-1][0], f"{found[-1][1]}{line}\n")
    return found


def looks_like(told: str, shown: str) -> bool:
    """Return whether an output is what is shown: in any spaces, `...` for whatever is left out."""
    if not shown.strip():
        return True
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    end = "" if shown.rstrip().endswith("...") else "..."
    return doctest.OutputChecker().check_output(f"{shown.strip()}{end}\n", f"{told}\n", flags)


def added(whole: dict[str, Any], part: dict[str, Any], *, deep: bool = False) -> dict[str, Any]:
    """Return a file with a part added: names of queries and columns, other keys as a whole."""
    made = dict(whole)
    for key, value in part.items():
        inside = deep or key in NESTED
        both = isinstance(value, dict) and isinstance(made.get(key), dict)
        made[key] = added(made[key], value, deep=True) if inside and both else value
    return made


def _read(text: str) -> dict[str, Any]:
    """Return a YAML mapping with all scalars as they are written."""
    found: dict[str, Any] = yaml.load(text, Loader=yaml.BaseLoader)
    return found


def _words(text: str, folder: Path) -> list[str]:
    words: list[str] = []
    for word in shlex.split(text):
        matches = sorted(folder.glob(word)) if "*" in word and "/" in word else []
        words += [path.relative_to(folder).as_posix() for path in matches] or [word]
    return words
