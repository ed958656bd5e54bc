"""An output never overlaps with the sources of its release (V90)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.errors import DataError, OutputError
from dprelease.exact.reading.sources import files_of_source
from dprelease.planning.prepare import prepare
from dprelease.release import path_conflicts
from dprelease.release.folder import temporary_paths
from dprelease.release.path_conflicts import refuse_own_source
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import Declaration, read_declaration
from tests.release.build import RELEASE, SCHEMA, write

ROW = "person,city,age,pay\n1,Bern,30,10\n"


def linked(name: str, to: str) -> Callable[[Path], None]:
    """Return what makes a link in a folder, and the folders that it needs."""

    def make(folder: Path) -> None:
        (folder / to).mkdir(parents=True, exist_ok=True)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(os.path.relpath(folder / to, (folder / name).parent))

    return make


def old_file(name: str) -> Callable[[Path], None]:
    """Return what makes a file of an earlier release."""

    def make(folder: Path) -> None:
        (folder / "out").mkdir()
        (folder / "out" / name).write_text(ROW)

    return make


def link_to_old_file(folder: Path) -> None:
    """Make a link to a file of an earlier release."""
    old_file("old.parquet")(folder)
    (folder / "data").mkdir()
    (folder / "data/x.csv").symlink_to("../out/old.parquet")


def nothing(_folder: Path) -> None:
    pass


AMONG = {
    "in every folder below": ("data/**/*.parquet", "data/out", nothing),
    "deep below": ("data/**/*.parquet", "data/a/b/c/out", nothing),
    "a folder of Parquet": ("data/", "data/a/out", nothing),
    "everything below": ("data/**", "data/out", nothing),
    "everything, whatever its name": ("**/*", "out", nothing),
    "one folder below": ("data/*/*.parquet", "data/out", nothing),
    "a pattern in the middle": ("data/*/parts/*.parquet", "data/2024/parts", nothing),
    "the folder of the source": ("data/*.parquet", "data", nothing),
    "above the source": ("out/in/people.csv", "out", nothing),
    "above the pattern": ("out/in/*.csv", "out", nothing),
    "at the source": ("out", "out", nothing),
    "the file of a query": ("out/by_city.parquet", "out", nothing),
    "its manifest": ("out/*.json", "out", nothing),
    "where it is written": (".out.dprelease-staging-*/*.parquet", "out", nothing),
    "where it is written, by length": (".out.dprelease-staging-????????/*", "out", nothing),
    "where it waits": (".*-replaced/*.parquet", "out", nothing),
    "by a step back of the source": ("x/../data/*/*.parquet", "data/out", linked("x", "y")),
    "a link to the output's folder": ("data/**/*.parquet", "far/out", linked("data/l", "far")),
    "a link to the output": ("data/*/*.parquet", "far/out", linked("data/l", "far/out")),
    "a link in the middle": ("data/*/x/*.parquet", "far/x", linked("data/l", "far")),
    "an output by a link": ("data/**/*.parquet", "link/out", linked("link", "data/a")),
    "a source by a link": ("link/**/*.parquet", "data/out", linked("link", "data")),
    "a link into the output": ("link/*.csv", "out", linked("link", "out/sub")),
    "what an earlier release has left": ("**/old*.parquet", "out", old_file("old.parquet")),
    "a link to a file of it": ("data/*.csv", "out", link_to_old_file),
    "hidden, as the pattern": ("data/.*/*.parquet", "data/.out", nothing),
    "where it is filled": ("data/.*/*.parquet", "data/out", nothing),
}
APART = {
    "beside": ("data/**/*.parquet", "out", nothing),
    "of another ending": ("data/**/*.csv", "data/out", nothing),
    "one folder too deep": ("data/*/*.parquet", "data/a/out", nothing),
    "not deep enough": ("data/*/*/*.parquet", "data/out", nothing),
    "the pattern ends above": ("data/*.parquet", "data/out", nothing),
    "another file": ("data/out/other.parquet/../../people.csv", "data/out", nothing),
    "of another name": ("data/**/visits-*.parquet", "data/out", nothing),
    "hidden": ("data/**/*.parquet", "data/.out", nothing),
    "a name that begins alike": ("out_of/people.csv", "out", nothing),
    "a link to what is beside": ("data/**/*.parquet", "far/out", linked("data/l", "far/out/../in")),
    "a link elsewhere": ("data/**/*.parquet", "far/out", linked("data/l", "near")),
}


def write_release(folder: Path, source: str, output: str, engine: str = "duckdb") -> Path:
    """Return a release file over a source that need not be there."""
    source = f"{{path: {source!r}, format: {'parquet' if '://' in source else 'csv'}}}"
    (folder / "people.yaml").write_text(SCHEMA.replace("people.csv", source))
    text = RELEASE.replace("out/people", output) + f"engine: {engine}\n"
    (folder / "release.yaml").write_text(text)
    return folder / "release.yaml"


def is_refused(declaration: Declaration, output: Path | None = None) -> bool:
    try:
        refuse_own_source(declaration, prepare(declaration)[1], output)
    except OutputError:
        return True
    return False


@pytest.mark.share(0.25)
@pytest.mark.parametrize("rooted", [False, True])
@pytest.mark.parametrize("name", [*AMONG, *APART])
def test_output_overlapping_sources_is_refused(name: str, rooted: bool, tmp_path: Path) -> None:
    """By `check` and `run`, before anything is read or made; the source does not exist yet."""
    source, output, make = (AMONG | APART)[name]
    make(tmp_path)
    release = write_release(tmp_path, os.path.join(tmp_path, source) if rooted else source, output)
    before = sorted(tmp_path.rglob("*"))
    said = CliRunner().invoke(cli.app, ["check", str(release)])
    assert (said.exit_code, "DP-OUTPUT-012" in said.stderr) == (
        (2, True) if name in AMONG else (0, False)
    )
    declaration = read_declaration(release)
    assert is_refused(declaration, tmp_path / output) == (name in AMONG)
    if name in AMONG:
        assert f"release.yaml:{len(release.read_text().splitlines()) - 1}  output" in said.stderr
        with pytest.raises(OutputError, match="DP-OUTPUT-012"):
            run(declaration)
        assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.share(0.5)
@pytest.mark.parametrize("name", [*AMONG, *APART])
def test_refused_outputs_are_those_a_run_would_read(name: str, tmp_path: Path) -> None:
    """The test writes files of the release; those that the source pattern finds are sources."""
    source, output, make = (AMONG | APART)[name]
    make(tmp_path)
    (tmp_path / "other").mkdir(exist_ok=True)
    declaration = read_declaration(write_release(tmp_path, source, output))
    if (tmp_path / output).name == (tmp_path / source).name:
        return  # one name for a folder and a file
    (tmp_path / output).mkdir(parents=True, exist_ok=True)
    places = temporary_paths((tmp_path / output).resolve())
    for place in places:
        place.mkdir()
    ours = set()
    for folder in (tmp_path / output, *places):
        for file in ("by_city.parquet", "all.parquet", "manifest.json"):
            (folder / file).write_text(ROW)
            ours.add((folder / file).resolve())
    table = declaration.tables["people"]
    assert table.table.source is not None
    found: set[Path] = set()
    with contextlib.suppress(DataError):  # there is none
        found = set(files_of_source(table, table.table.source))
    assert bool(found & ours) <= is_refused(declaration)
    above = {
        "a link to a file of it",
        "what an earlier release has left",
        "above the source",
        "above the pattern",
        "a link into the output",
        "the folder of the source",
    }
    if name not in above:
        assert is_refused(declaration) == bool(found & ours)


@pytest.mark.parametrize(
    ("source", "output", "meets"),
    [
        ("file://ROOT/data", "data/out", True),
        ("file://ROOT/data", "out", False),
        ("file://localhostROOT/data/", "data/a/out", True),
        ("FILE://ROOT/out/in", "out", True),
        ("file://ROOT/data/{a,b}/*", "data/c", True),
        ("file://ROOT/data/{a,b}/*", "out", False),
        ("file://ROOT/link/*", "data/out", True),
        ("s3a://bucket/out", "out", False),
    ],
)
def test_output_overlapping_spark_sources_is_refused(
    source: str, output: str, meets: bool, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")
    path = source.replace("ROOT", str(tmp_path))
    assert is_refused(read_declaration(write_release(tmp_path, path, output, "spark"))) == meets


def test_patterns_with_cycles_and_from_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search ends for cyclic links and for patterns from the root."""
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        for other in ("a", "b", "c"):
            (tmp_path / name / f"to_{other}").symlink_to(tmp_path / other)
    assert is_refused(read_declaration(write_release(tmp_path, "**/**/**/*.parquet", "out")))
    assert is_refused(read_declaration(write_release(tmp_path, "**/to_b/**/*.parquet", "b/out")))
    assert not is_refused(
        read_declaration(write_release(tmp_path, "**/to_d/**/*.parquet", "b/out"))
    )
    monkeypatch.setattr(
        path_conflicts, "MOST_FOLDERS", 0
    )  # without a link nothing has to be looked at
    assert is_refused(read_declaration(write_release(tmp_path, "/**/*.parquet", "out")))
    monkeypatch.setattr(path_conflicts, "MOST_FOLDERS", 300)
    assert not is_refused(
        read_declaration(write_release(tmp_path, "/**/no.where/*.parquet", "out"))
    )


def test_joined_tables_are_checked_and_frames_are_not(tmp_path: Path) -> None:
    release = write_release(tmp_path, "people.csv", "codes/out")
    (tmp_path / "codes.yaml").write_text(
        "table: codes\npublic: true\nsource: codes/**/*.parquet\ncolumns: {code: {type: text}}\n"
    )
    release.write_text(release.read_text().replace("people.yaml", "people.yaml, codes.yaml"))
    assert is_refused(read_declaration(release))
    (tmp_path / "codes.yaml").write_text(
        "table: codes\npublic: true\nsource: {frame: codes}\ncolumns: {code: {type: text}}\n"
    )
    assert not is_refused(read_declaration(release))


def test_search_ends_if_no_path_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even the root folder exists."""
    monkeypatch.setattr(os.path, "lexists", lambda _path: False)
    end = str(tmp_path / "out" / "people")
    there, missing = path_conflicts._existing_part(end)
    assert there == os.path.abspath(os.sep)
    assert missing == list(Path(end).parts[1:])


def test_error_names_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    path = write_release(tmp_path / "here", "people.csv", "out")
    monkeypatch.chdir(tmp_path / "here")
    declaration = read_declaration(path)
    with pytest.raises(OutputError, match="DP-OUTPUT-012  The output 'here'"):
        refuse_own_source(declaration, prepare(declaration)[1], Path())


def test_nothing_is_written_into_a_release(tmp_path: Path) -> None:
    """Any other file would make the release fail its verification."""
    path = write(tmp_path)
    release = dprelease.read_release(path)
    folder = release.run()
    elsewhere = dprelease.run(path, output=tmp_path / "other").folder
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "manifest.json").write_text('{"name": "of a web site", "files": {"a": "b"}}')
    for inner in (folder / "inner", folder / "a" / "b", tmp_path / "link" / "inner"):
        for call in (
            lambda at: release.run(output=at),
            lambda at: dprelease.rehearse(release, output=at),
            lambda at: dprelease.export(elsewhere, "csv", output=at),
            lambda at: dprelease.export_to_database(elsewhere, at.with_suffix(".sqlite")),
            release.to_yaml,
        ):
            with pytest.raises(OutputError, match="DP-OUTPUT-024"):
                call(inner)
    with pytest.raises(OutputError, match="DP-OUTPUT-024"):
        release.to_yaml(folder)
    with pytest.raises(OutputError, match="DP-OUTPUT-024"):
        dprelease.audit(release, output=folder / "audit")
    source, inner = str(tmp_path / "people.csv"), str(folder / "inner")
    limit = ["--owner", "o", "--epsilon", "1", "--delta", "1e-9"]
    for command in (
        ["init", source, "--output", inner],
        ["init", source, "--output", str(tmp_path / "s.yaml"), "--release", inner],
        ["plan", str(path), "--plot", f"{inner}.svg"],
        ["mechanisms", "compare", "--epsilon", "1", "--plot", f"{inner}.svg"],
        ["audit", str(path), "--output", inner],
        ["ledger", "init", inner, "--table", "people", *limit],
    ):
        done = CliRunner().invoke(cli.app, command)
        assert "DP-OUTPUT-024" in done.output, command
    assert not (tmp_path / "s.yaml").exists()
    assert dprelease.verify(folder).ok
    assert dprelease.run(path, output=tmp_path / "next" / "x").published
