"""What the README shows is run as it stands there, and what the guides say in numbers is true."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.cli import app
from dprelease.ledger.account import largest_rho
from dprelease.privacy.renyi import zcdp_epsilon
from tests.docs.fences import DOCS, README, RUN, SHOWN, Block, blocks
from tests.docs.reader import Reader, commands
from tests.docs.test_pages import FIRST

TEXT = README.read_text(encoding="utf-8")
LEDGERS = (DOCS / "how-to" / "ledgers.md").read_text(encoding="utf-8")
MOST_LINES = 150


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """A reader with the files of the first guide."""
    monkeypatch.chdir(tmp_path)
    made = Reader(tmp_path)
    for block in blocks(FIRST.read_text(encoding="utf-8")):
        if block.file is not None:
            made.follow(block)
    return made


def test_readme_blocks_run_as_shown(reader: Reader) -> None:
    """Every block works, the README is short, and its release is published and verified."""
    assert len(TEXT.splitlines()) <= MOST_LINES
    found = blocks(TEXT)
    assert {block.language for block in found} <= RUN | SHOWN
    shown = [words for block in found if block.language == "console"
             for words, _ in commands(block.text)]  # fmt: skip
    asked = [words.split()[1] for words in shown if words.startswith("dprelease ")]
    assert asked == ["check", "plan", "run", "verify"]
    for block in found:
        reader.follow(block)
    assert (reader.folder / "out/by_state/by_state_sex.parquet").exists()


def test_first_guide_uses_the_same_release() -> None:
    """Its files are those of the README, with columns that other guides ask about."""
    first = {block.file: block.text for block in blocks(FIRST.read_text(encoding="utf-8"))}
    for block in blocks(TEXT):
        if block.language == "yaml":
            there = first[block.file].splitlines()
            assert [line for line in there if line in block.text.splitlines()] == (
                block.text.splitlines()
            ), block.file


def test_every_command_has_a_guide() -> None:
    """Each is shown in the README or in a page that is run, beside its place in the reference."""
    whole = TEXT + "".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    names = [command.name or command.callback.__name__ for command in app.registered_commands]
    names += [str(group.name) for group in app.registered_groups]
    assert len(names) > 8
    assert [name for name in names if not re.search(rf"dprelease {name}\b", whole)] == []


def test_guide_budget_lasts_twelve_months(reader: Reader) -> None:
    """The guide's ledger pays for twelve of its monthly releases, and for no thirteenth."""
    init = re.search(r"ledger init .*\\\n.*--epsilon (\S+) --delta (\S+)", LEDGERS)
    monthly = re.search(
        r"`budget: \{rho: (\S+), delta: (\S+)\}`\. Each of these releases alone has an epsilon of "
        r"at most (\d\.\d+)\.",
        LEDGERS,
    )
    assert init is not None
    assert monthly is not None
    (epsilon, at), (rho, delta, alone) = init.groups(), monthly.groups()
    assert delta == at
    whole = float(largest_rho(Fraction(epsilon), Fraction(delta)))
    assert whole // float(rho) == 12
    assert f"to a [rho](../glossary.md#rho) of {whole - 5e-5:.4f}" in LEDGERS
    assert 0.99 * float(alone) < zcdp_epsilon(float(rho), float(delta)) <= float(alone)
    for block in blocks(LEDGERS)[:3]:
        reader.follow(block)
    part = "budget: {epsilon: 1, delta: 1e-9}\nmechanism: auto\n"
    reader.follow(Block("yaml", part, 1, "release.yaml", is_part=True))
    said = " ".join(reader.told("plan release.yaml").split())
    assert "5 like it fit" in said
    assert "noise it would take" in said
    taken = re.search(r"this release would take (0\.\d+)", said)
    assert taken is not None
    assert (
        re.search(r"charged a rho of (0\.\d+) in this ledger", LEDGERS)[1]
        == f"{float(taken[1]):.3f}"
    )  # type: ignore[index]
