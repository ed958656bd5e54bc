"""Every command over every kind of folder: it works, or the error names the kind."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dprelease import cli
from dprelease.rehearsal.rehearse import write_rehearsal
from dprelease.release.run_options import with_party
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.verification.manifest_comparison import FORMS, HELD
from tests.covering import spread
from tests.rehearsal import test_records_and_parties
from tests.release import test_federated, test_local
from tests.release.build import write
from tests.replay import Keyed

KINDS = ("tables", "rehearsal", "records", "messages", "rehearsed_records", "rehearsed_parties")
WORDS = {
    "tables": "a release of tables",
    "rehearsal": "a rehearsal, not a release",
    "records": "a release of single records",
    "messages": "one party's messages",
    "rehearsed_records": "a rehearsal of single records, not a release",
    "rehearsed_parties": "a rehearsal of several parties, not a release",
}
COMMANDS: dict[str, tuple[list[str], set[str]]] = {
    # by name: its arguments, with {folder} and {new}, and the kinds that it can serve
    "verify": (["verify", "{folder}"], {"tables", "records", "messages"}),
    "report": (["report", "{folder}", "--output", "{new}.html"], {*KINDS}),
    "export": (["export", "{folder}", "--to", "csv", "--output", "{new}"], {"tables", "records"}),
    "estimate": (["estimate", "{folder}", "city"], {"records"}),
    "areas": (["areas", "{folder}", "{areas}"], set()),
}
REHEARSED = ("rehearsal", "rehearsed_records", "rehearsed_parties")
OWN = {
    **{("verify", kind): "DP-VERIFY-019" for kind in REHEARSED},
    **{("export", kind): "DP-EXPORT-010" for kind in REHEARSED},
    ("areas", "tables"): "DP-AREA-004",
}


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    def made(kind: str) -> Path:
        folder = tmp_path_factory.mktemp(kind)
        match kind:
            case "records":
                return test_local.publish(folder)
            case "messages":
                release = test_federated.write(folder, 1)
                return run(with_party(read_declaration(release), 1), bits=Keyed(kind))
            case "rehearsed_records" | "rehearsed_parties":
                of = test_records_and_parties
                return of.made_in(folder, kind.removeprefix("rehearsed_"), 50)
            case "rehearsal":
                return write_rehearsal(
                    read_declaration(write(folder)), rows={"people": 50}, bits=Keyed(kind)
                )
        return run(read_declaration(write(folder)), bits=Keyed(kind))

    return cache(made)


@pytest.mark.share(0.25)
@pytest.mark.parametrize(("command", "kind"), spread(list(product(COMMANDS, KINDS)), 0.5))
def test_commands_name_the_kind_of_a_wrong_folder(
    command: str, kind: str, folder_of: Callable[[str], Path], tmp_path: Path
) -> None:
    """The error gives no useless advice, such as another version of the tool."""
    words, served = COMMANDS[command]
    areas = tmp_path / "areas.csv"
    areas.write_text("leaf,area\na,A\n")
    says = {"folder": folder_of(kind), "new": tmp_path / "new", "areas": areas}
    done = CliRunner().invoke(cli.app, [word.format(**says) for word in words])
    told = done.stdout + done.stderr
    if kind in served:
        assert done.exit_code == 0, told
        return
    assert done.exit_code != 0
    code = OWN.get((command, kind), "DP-VERIFY-025")
    assert code in told
    assert "formats are" not in told
    assert "with the version" not in told
    if code == "DP-VERIFY-025":
        assert f"The folder contains {WORDS[kind]}" in told


def test_every_kind_has_words() -> None:
    assert [*FORMS.values()] == [*HELD]
    assert {words for _, words in HELD.values()} == {*WORDS.values()}
