"""What the README shows is run as it stands there."""

from __future__ import annotations

import os
import re
import shlex
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.cli import app
from dprelease.ledger.account import largest_rho
from dprelease.privacy.renyi import zcdp_epsilon
from dprelease.schema.load import read_declaration
from tests import processes
from tests.signatures.keys import copied, public

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PEOPLE = "".join(
    f"{i},{('CT', 'MA', 'ME', 'NH', 'RI', 'VT', 'XX')[i % 7]},{'FM'[i % 2]},{i % 90},{i * 37}\n"
    for i in range(400)
)


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of one language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the README's two YAML files and a longer people.csv with its header."""
    header = blocks("csv")[0].splitlines()[0]
    (tmp_path / "people.csv").write_text(f"{header}\n{PEOPLE}", encoding="utf-8")
    schema, release, *_ = blocks("yaml")
    (tmp_path / "people.yaml").write_text(schema, encoding="utf-8")
    (tmp_path / "release.yaml").write_text(release, encoding="utf-8")
    return tmp_path


def run(folder: Path, *command: str) -> str:
    """Return the output of a Python command that must end with status 0."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    done = processes.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_five_minutes(folder: Path) -> None:
    """Every `dprelease` command of the walk-through works, in the order in which it is shown."""
    shown = [
        shlex.split(line.removeprefix("$ dprelease ").split("  #")[0])
        for line in "".join(blocks("console")).replace("\\\n", " ").splitlines()
        if line.startswith("$ dprelease")
    ]
    assert [words[0] for words in shown] == [
        "check",
        "plan",
        "run",
        "verify",
        "rehearse",
        "sql",
        "mechanisms",
        "ledger",
        "report",
        "sign",
        "verify",
    ]
    for words in shown[:-2]:
        run(folder, "-m", "dprelease", *words)
    assert (folder / "out/by_state/by_state_sex.parquet").exists()
    assert (folder / "out/by_state_report.html").exists()
    key = copied(folder)
    key.rename(folder / "steward")
    (folder / "allowed_signers").write_text(f'steward@office namespaces="dprelease-*" {public()}\n')
    for words in shown[-2:]:
        told = run(folder, "-m", "dprelease", *words)
    assert "signed by steward@office" in told


def test_a_lasting_budget_and_an_automatic_mechanism(folder: Path) -> None:
    """What the README adds to the two files works, and the ledger it opens pays for the release."""
    (init,) = (
        block.replace("\\\n", " ").strip().removeprefix("$ dprelease ").split()
        for block in blocks("console")
        if "ledger init" in block
    )
    run(folder, "-m", "dprelease", *init)
    schema, release, mechanism, *_ = blocks("yaml")
    (folder / "people.yaml").write_text(schema + "owner: statistics-office\n", encoding="utf-8")
    text = release + mechanism + "ledger: ledger.sqlite\n"
    (folder / "release.yaml").write_text(text, encoding="utf-8")
    assert "auto: least p95" in run(folder, "-m", "dprelease", "plan", "release.yaml")
    run(folder, "-m", "dprelease", "run", "release.yaml")
    checked = run(folder, "-m", "dprelease", "verify", "out/by_state", "--ledger", "ledger.sqlite")
    assert "the ledger holds the reservation" in checked
    assert "statistics-office/people" in run(
        folder, "-m", "dprelease", "ledger", "show", "ledger.sqlite"
    )


def test_a_year_of_monthly_releases(folder: Path) -> None:
    """The README's ledger pays for twelve of the README's monthly releases, and for no thirteenth."""
    init = re.search(r"ledger init .*\n.*--epsilon (\S+) --delta (\S+)", README)
    monthly = re.search(
        r"`(budget: \{rho: (\S+), delta: (\S+)\})`, each .* epsilon (\S+) at", README
    )
    assert init is not None
    assert monthly is not None
    budget, rho, delta, alone = monthly.groups()
    epsilon, at = init.groups()
    assert delta == at
    whole = float(largest_rho(Fraction(epsilon), Fraction(delta)))
    assert whole // float(rho) == 12
    assert f"is a rho of {whole - 5e-5:.4f}" in README
    assert 0.99 * float(alone) < zcdp_epsilon(float(rho), float(delta)) <= float(alone)
    init_words = ["ledger.sqlite", "--table", "people", "--owner", "statistics-office"]
    init_words += ["--unit", "person_id", "--epsilon", epsilon, "--delta", delta]
    run(folder, "-m", "dprelease", "ledger", "init", *init_words)
    schema, release, *_ = blocks("yaml")
    (folder / "people.yaml").write_text(schema + "owner: statistics-office\n", encoding="utf-8")
    ledger = "mechanism: discrete_gaussian\nledger: ledger.sqlite\n"
    text = re.sub(r"budget: \{.*\}", budget, release) + ledger
    (folder / "release.yaml").write_text(text, encoding="utf-8")
    (shown,) = blocks("text")
    said = run(folder, "-m", "dprelease", "plan", "release.yaml").splitlines()[-1]
    assert re.sub(r"take \S+:", "", said) == re.sub(r"take \S+:", "", " ".join(shown.split()))
    text = release + "ledger: ledger.sqlite\n"
    (folder / "release.yaml").write_text(text, encoding="utf-8")
    said = run(folder, "-m", "dprelease", "plan", "release.yaml").splitlines()[-1]
    assert "5 like it fit" in said
    assert "noise it would take" in said


def test_a_computed_column_and_a_public_table(folder: Path) -> None:
    """The public table and the query that joins it are published and verified as they stand."""
    regions, queries = blocks("yaml")[3:]
    (folder / "regions.yaml").write_text(regions, encoding="utf-8")
    (folder / "regions.csv").write_text("code,coast\nCT,coast\nVT,inland\n", encoding="utf-8")
    head = (
        "title: T\ntables: [people.yaml, regions.yaml]\nbudget: {epsilon: 1}\noutput: out/coast\n"
    )
    (folder / "coast.yaml").write_text(head + queries, encoding="utf-8")
    for command in ("check", "plan", "run"):
        run(folder, "-m", "dprelease", command, "coast.yaml")
    run(folder, "-m", "dprelease", "verify", "out/coast")


def test_a_release_every_month(folder: Path) -> None:
    """The README's release with variables and defaults is published for a month, and verified."""
    (text,) = blocks("yml")
    table = "table: visits\nsource: visits.csv\ncolumns:\n  day: {type: date}\n"
    table += "  city: {type: category, values: [Bern, Oslo]}\n"
    (folder / "visits.yaml").write_text(table, encoding="utf-8")
    (folder / "visits.csv").write_text("day,city\n2026-03-02,Bern\n", encoding="utf-8")
    shared = "tables: [visits.yaml]\nbudget: {epsilon: 1}\n"
    (folder / "defaults.yaml").write_text(shared, encoding="utf-8")
    (folder / "monthly.yaml").write_text(text, encoding="utf-8")
    sets = re.search(r"dprelease run release.yaml ((?:--set \S+ ?)+)`", README)
    assert sets is not None
    for command in ("check", "plan", "run"):
        run(folder, "-m", "dprelease", command, "monthly.yaml", *sets[1].split())
    run(folder, "-m", "dprelease", "verify", "out/2026-03")


def test_the_pandas_walk_through(folder: Path) -> None:
    """The Python block runs as it stands."""
    (code,) = blocks("python")
    run(folder, "-c", code)


def test_help_names_every_command() -> None:
    """Every command that there is stands in `--help` and in the README."""
    text = run(ROOT, "-m", "dprelease", "--help")
    commands = [command.name or command.callback.__name__ for command in app.registered_commands]
    groups = [group.name for group in app.registered_groups]
    assert len(commands) + len(groups) > 8
    for command in [*commands, *groups]:
        assert command in text
        assert re.search(rf"dprelease {command}\b", README), command


def test_what_readers_are_told(tmp_path: Path) -> None:
    """The texts of the README can be declared as they stand there."""
    section = README.split("## Labels and what else")[1].split("\n## ")[0]
    shown = [line[4:] for line in section.splitlines() if line.startswith("    ")]
    (tmp_path / "people.yaml").write_text(blocks("yaml")[0], encoding="utf-8")
    rest = ["tables: [people.yaml]", "budget: {epsilon: 1}", "output: out", ""]
    path = tmp_path / "release.yaml"
    path.write_text("\n".join([*shown, *rest]), encoding="utf-8")
    declaration = read_declaration(path)
    assert declaration.spec.about is not None
    assert declaration.spec.about.languages == ("en", "fr")
