"""What is added without touching anything else: each seam is shown by something that is added."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import dprelease
from dprelease import cli, mechanisms
from dprelease.documents.encoding import canonical, sha256
from dprelease.errors import DpReleaseError, State
from dprelease.exact.engines import engine_kind
from dprelease.exact.reading import cell_rows
from dprelease.exact.sources.source_reader import SourceReader, reader_of
from dprelease.exports.writer import export_format
from dprelease.mechanisms import registry
from dprelease.postprocess import families
from dprelease.release.run_options import engine_exposures, with_engine
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.schema.release_parts import extension_names
from dprelease.schema.source_types import registry as registry_of_sources
from dprelease.schema.source_types.source_type import OPTIONS
from dprelease.tables import formats
from tests import processes
from tests.manifest_files import with_digest
from tests.release import tree_sums_step
from tests.release.build import ROWS, write
from tests.replay import Keyed

OTHERS = "      pay: {sum: pay, mechanism: laplace}\n"
"""What the family has beside its counts in that release."""

ROOT = Path(__file__).parents[1]

QUIET = """
from dprelease.mechanisms.laplace import Laplace
from dprelease.mechanisms.randomizer import AutoRule


class QuietLaplace(Laplace):
    name = "quiet_laplace"
    auto_rule = AutoRule()


MECHANISM = QuietLaplace
"""


def forget() -> None:
    registry.names.cache_clear()
    registry.mechanism_class.cache_clear()


@pytest.fixture
def quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A mechanism in a file of its own, which nothing else knows of."""
    folder = tmp_path / "mechanisms"
    folder.mkdir()
    (folder / "quiet_laplace.py").write_text(QUIET)
    monkeypatch.setattr(mechanisms, "__path__", [*mechanisms.__path__, str(folder)])
    forget()
    yield "quiet_laplace"
    sys.modules.pop("dprelease.mechanisms.quiet_laplace", None)
    monkeypatch.undo()
    forget()


@pytest.mark.parametrize("noise", ["{0}", "{{name: auto, allowed: {0}}}"])
def test_mechanism_is_one_file(quiet: str, noise: str, tmp_path: Path) -> None:
    """It is found, planned, drawn, chosen by `auto`, recorded and verified."""
    path = write(tmp_path)
    text = path.read_text().replace("mechanism: gaussian", f"mechanism: {noise.format(quiet)}")
    (tmp_path / "own.yaml").write_text(text)
    folder = run(read_declaration(tmp_path / "own.yaml"), output=tmp_path / "out own")
    record = json.loads((folder / "manifest.json").read_text())
    assert quiet in json.dumps(record)
    assert dprelease.verify(folder).ok
    assert quiet in registry.names()


class ArrowFiles:
    """Another format: Arrow's own files."""

    extension = "arrow"

    def writer(self, path: Path, schema: pa.Schema) -> pa.RecordBatchFileWriter:
        return pa.ipc.new_file(path, schema)

    def read(self, path: Path, columns: Sequence[str] | None = None) -> pa.Table:
        held = pa.ipc.open_file(path.read_bytes()).read_all()
        return held if columns is None else held.select(columns)

    def shape(self, path: Path) -> tuple[pa.Schema, int]:
        held = self.read(path)
        return held.schema, len(held)

    def notes(self, path: Path) -> dict[bytes, bytes]:
        return dict(self.shape(path)[0].metadata or {})

    def batches(self, path: Path, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        yield from self.read(path, columns).to_batches()


def test_file_format_is_one_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is published, listed by its digest, and verified down to keys and rows."""
    monkeypatch.setattr(formats, "PUBLISHED_FORMAT", ArrowFiles())
    folder = run(read_declaration(write(tmp_path)), output=tmp_path / "out own")
    assert sorted(path.name for path in folder.iterdir()) == [
        "all.arrow", "by_city.arrow", "manifest.json",
    ]  # fmt: skip
    assert dprelease.verify(folder).ok
    (folder / "all.arrow").write_bytes((folder / "by_city.arrow").read_bytes())
    assert not dprelease.verify(folder).ok


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What is found of `tests/added`, in a process of its own: words come before their models."""
    folder = tmp_path_factory.mktemp("added")
    command = [sys.executable, "-m", "tests.added", str(folder)]
    done = processes.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_aggregate_is_one_file_its_sql_and_its_keyword(added: dict[str, Any]) -> None:
    """It is declared, planned, priced, noised, published and verified, with its own words."""
    release = added["release"]
    assert release["told"]["moved"] == [
        "sum of 'n' without signs",
        "1 groups at most, each with 1 rows of 0 to 7 steps: in each, 1 cell by 7 steps, "
        "by add_remove.",
        "m",
        "1",
    ]  # fmt: skip
    assert release["told"]["tall"][0] == "count of rows in which 'x' is -0.5 or more"
    assert release["treated"]["x"] == (
        "missing: not used, but its row still counts elsewhere; outside the bounds: clamped"
    )
    assert (release["planned"], release["verified"], release["forged"]) == (True, True, False)
    assert added["schema"] == 1
    assert added["parties"] == ["moved"]
    assert added["groups"] == ["('n', 'absolute_sum')", "('n', 'mean')"]


def test_added_keyword_is_refused_like_others(added: dict[str, Any]) -> None:
    keys = "queries.q.columns.wrong"
    assert added["refused"] == [
        ["DP-QUERY-004", f"{keys}.absolute_sum"],
        ["DP-QUERY-001", f"{keys}.absolute_sum"],
        ["DP-RELEASE-002", f"{keys}.absolute_sum"],
        ["DP-QUERY-011", f"{keys}.mechanism"],
        ["DP-DECL-002", f"{keys}.at_least"],
        ["DP-DECL-003", f"{keys}.at_least"],
    ]


def test_added_aggregate_respects_its_sensitivity(added: dict[str, Any]) -> None:
    """It is what plain Python computes; no neighbour is farther, and one step less is refuted."""
    assert added["wrong"] == []
    compared, beyond = added["neighbours"]
    assert compared > 50
    assert beyond == 0
    assert set(map(tuple, added["reached"].values())) == {(False, True)}


PLAIN = """
from contextlib import contextmanager

import numpy as np
import pandas as pd

from dprelease.exact.engine_api import QueryEngine, EngineKind
from dprelease.exact.results.true_table import ExactTable
from tests.exact.reference import reference


RAN = []


class PlainEngine(QueryEngine):
    def __init__(self, rows):
        self.rows = rows

    def compile(self, query):
        return None

    def run(self, query):
        adults = lambda row: query.predicate is None or row["age"] >= 18
        found = reference(query, self.rows, adults)
        RAN.append(query.name)
        vectors = {name: np.array(held, dtype=np.int64) for name, held in found.items()}
        return ExactTable(query.name, query.keys.size, vectors)

    def partitions(self, query):
        raise NotImplementedError


class PlainKind(EngineKind):
    @contextmanager
    def open(self, sources, spec, settings):
        declared = sources.declared
        path = declared.folder / declared.table.source.path
        yield PlainEngine(pd.read_csv(path).to_dict("records"))

    def exposure_texts(self, spec):
        return ["nothing is locked"]


ENGINE = PlainKind()
"""
"""Rows by pandas, aggregates by the slow reference: no SQL."""


def test_engine_is_one_module_and_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is admitted, read with, asked what it leaves open, and verified; it answers the same."""
    (tmp_path / "plain_engine.py").write_text(PLAIN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(extension_names.ENGINES, "plain", "plain_engine")
    text = write(tmp_path).read_text()
    declared = read_declaration(tmp_path / "release.yaml")
    (tmp_path / "own.yaml").write_text(text + "engine: plain\n")
    own = read_declaration(tmp_path / "own.yaml")
    assert engine_exposures(own) == ["nothing is locked"]
    folder = run(own, output=tmp_path / "out own", bits=Keyed("noise"))
    assert dprelease.verify(folder).ok
    other = run(declared, output=tmp_path / "out other", bits=Keyed("noise"))
    assert with_engine(declared, "plain").spec.engine == "plain"
    for name in ("all.parquet", "by_city.parquet"):
        assert (folder / name).read_bytes() == (other / name).read_bytes()
    assert sys.modules.pop("plain_engine").RAN == ["by_city", "all"]
    monkeypatch.undo()
    assert not dprelease.verify(folder).ok  # nobody knows such an engine
    with pytest.raises(DpReleaseError, match="'duckdb' or 'spark'"):
        read_declaration(tmp_path / "own.yaml")
    with pytest.raises(DpReleaseError, match="`engine` takes duckdb or spark"):
        with_engine(declared, "plain")


def test_every_engine_has_a_module() -> None:
    """Which is found by its text, and opens and tells as all do."""
    for name in extension_names.ENGINES:
        kind = engine_kind(name)
        assert callable(kind.open)
        assert callable(kind.exposure_texts)
    assert extension_names.DEFAULT_ENGINE in extension_names.ENGINES


def test_family_step_is_one_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets all tables of a rollup as noised integers; what it makes of them is verified."""
    monkeypatch.setattr(families, "FAMILY_STEPS", [tree_sums_step.step_for_query])
    text = write(tmp_path).read_text().replace("by_city:", f"{tree_sums_step.QUERY}:")
    text = text.replace("group_by: [city]", "rollup: [city]").replace(OTHERS, "")
    (tmp_path / "own.yaml").write_text(text)
    folder = run(read_declaration(tmp_path / "own.yaml"), output=tmp_path / "out own")
    names = [f"tables/{tree_sums_step.QUERY}_{keys}.parquet" for keys in ("total", "city")]
    total, cities = (pq.read_table(folder / name)["people"].to_pylist() for name in names)
    assert total == [sum(cities)]
    assert dprelease.verify(folder).ok
    (folder / names[0]).write_bytes((folder / names[1]).read_bytes())
    assert not dprelease.verify(folder).ok


TALLIES = """
from dataclasses import dataclass

from dprelease.exports.export import Problem


@dataclass(frozen=True)
class Tallies:
    name: str = "tallies"
    extra: str | None = None

    def problems(self, metadata):
        if any(len(table.keys) > 1 for table in metadata.tables_for_readers):
            yield Problem("it has more than one key", metadata.tables[0].name)

    def write(self, release, folder):
        (folder / "tallies").mkdir()
        text = ""
        for table in release.metadata.tables_for_readers:
            rows = sum(batch.num_rows for batch in release.batches(table))
            text += f"{release.record.title} {table.name} {rows} {[*release.written]}\\n"
        (folder / "tallies/all.txt").write_text(text)
        return ["tallies/all.txt"]


EXPORT = Tallies()
"""


def test_export_format_is_one_module_and_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is admitted, asked for problems, written, listed by its digest, and made again."""
    (tmp_path / "tallies_export.py").write_text(TALLIES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(extension_names.FORMATS, "tallies", "tallies_export")
    text = write(tmp_path).read_text()
    (tmp_path / "own.yaml").write_text(text + "formats: [tallies, csv]\n")
    folder = run(read_declaration(tmp_path / "own.yaml"), output=tmp_path / "out own")
    told = (folder / "tallies/all.txt").read_text()
    assert told == "".join(
        f"People by city {name} {rows} ['parquet', 'csv']\n"
        for name, rows in (("by_city", 3), ("all", 1))
    )
    record = json.loads((folder / "manifest.json").read_text())
    assert [part["format"] for part in record["exports"]] == ["csv", "tallies"]
    assert dprelease.verify(folder).ok
    (folder / "tallies/all.txt").write_text("forged")
    record["exports"][1]["files"][0]["sha256"] = sha256(b"forged")
    (folder / "manifest.json").write_bytes(canonical(with_digest(record)))
    assert [one.code for one in dprelease.verify(folder).findings] == ["DP-VERIFY-023"]
    two = text.replace("group_by: [city]", "group_by: [city, age]") + "formats: tallies\n"
    (tmp_path / "two.yaml").write_text(two)
    with pytest.raises(DpReleaseError, match="'by_city': it has more than one key"):
        run(read_declaration(tmp_path / "two.yaml"), output=tmp_path / "out two")
    monkeypatch.undo()
    with pytest.raises(DpReleaseError, match="DP-EXPORT-001"):
        read_declaration(tmp_path / "own.yaml")


def test_every_format_has_a_module() -> None:
    """Which is found by its text, and is called as it is on the list."""
    for name in extension_names.FORMATS:
        assert export_format(name).name == name


FIXED = "tests.added.fixed_width"


@pytest.fixture
def fixed_width(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The release of `build`, whose rows are in a file of an added source type."""
    monkeypatch.setitem(registry_of_sources.SOURCE_TYPES, "own_width", FIXED)
    path = write(tmp_path)
    cells = [row.rstrip("\n").split(",") for row in ROWS]
    lines = [f"{person:>2}{city:>5}{age:>3}{pay:>8}\n" for person, city, age, pay in cells]
    (tmp_path / "people.own").write_text("person:2 city:5 age:3 pay:8\n" + "".join(lines))
    schema = (tmp_path / "people.yaml").read_text()
    (tmp_path / "people.yaml").write_text(schema.replace("people.csv", "people.own"))
    return path


def command(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli.app, [*words])
    return done.exit_code, done.output


def test_source_type_is_one_class_and_one_line(
    fixed_width: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is sketched, checked, run and verified, and the same rows have the same answers."""
    file = str(tmp_path / "people.own")
    status, sketched = command("init", file, "--unit", "person")
    assert status == 0, sketched
    assert "source: people.own" in sketched
    assert "city: {type: text}" in sketched
    status, peeked = command("init", file, "--unit", "person", "--peek")
    assert status == 0, peeked
    assert "city: {type: category, values: [" in peeked
    status, checked = command("check", str(fixed_width))
    assert status == 0, checked
    folder = run(read_declaration(fixed_width), output=tmp_path / "own", bits=Keyed("noise"))
    status, verified = command("verify", str(folder))
    assert status == 0, verified
    other = run(read_declaration(write(tmp_path / "csv")), bits=Keyed("noise"))
    for name in ("all.parquet", "by_city.parquet"):
        assert (folder / name).read_bytes() == (other / name).read_bytes()
    monkeypatch.undo()
    assert not dprelease.verify(folder).ok  # nobody knows such a source type
    with pytest.raises(DpReleaseError, match=r"format: parquet \| csv"):
        read_declaration(fixed_width)


def test_added_source_type_refuses_undeclared_options(fixed_width: Path) -> None:
    """An option that it does not name is refused, and so is an engine that can't read it."""
    text, schema = fixed_width.read_text(), fixed_width.with_name("people.yaml")
    fixed_width.write_text(text + "engine: spark\n")
    assert "a file of fixed width" in command("check", str(fixed_width))[1]
    fixed_width.write_text(text)
    source = "{path: people.own, delimiter: ;}"
    schema.write_text(schema.read_text().replace("people.own", source))
    status, checked = command("check", str(fixed_width))
    assert (status, "DP-SCHEMA-014" in checked) == (2, True)


def test_ids_of_source_types_without_comparisons_are_refused(
    fixed_width: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before rows are read: two spellings of one person might be equal in it."""
    kind = registry_of_sources.source_type("own_width")
    monkeypatch.setattr(type(kind), "comparisons", None)
    with pytest.raises(DpReleaseError) as caught:
        run(read_declaration(fixed_width))
    assert (caught.value.code, caught.value.state) == ("DP-DATA-026", State.NOTHING)
    assert "`comparisons`" in caught.value.fix
    file = str(fixed_width.with_name("people.own"))
    assert "DP-DATA-026" in command("init", file, "--unit", "person")[1]
    assert command("init", file)[0] == 0


@pytest.mark.parametrize("line", ["person:secret", "person:2 city:5 age:3 pay:8"])
def test_errors_of_added_readers_are_hidden(
    fixed_width: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it raises may quote a value, whether rows are read already or not."""
    file = fixed_width.with_name("people.own")
    rows = "".join(file.read_text().splitlines(keepends=True)[1:])
    file.write_text(f"{line}\n{rows}")
    fails = mock.Mock(side_effect=ValueError("secret"))
    monkeypatch.setattr(cell_rows.CellRows, "_batch", fails)
    with pytest.raises(DpReleaseError) as caught:
        run(read_declaration(fixed_width))
    assert caught.value.code == ("DP-DATA-001" if "secret" in line else "DP-DATA-006")
    trace = "".join(traceback.format_exception(caught.value))
    assert "secret" not in str(caught.value)
    assert 'ValueError("secret")' not in trace


def test_source_types_are_complete_and_unique() -> None:
    """By its name, and one name, ending or address belongs to one type."""
    types = list(registry_of_sources.declarable_types())
    assert [one.name for one in types] == list(registry_of_sources.SOURCE_TYPES)
    for one in types:
        assert isinstance(reader_of(one), SourceReader)
        assert one.comparisons is not None
        assert not {*one.options} - {*OPTIONS}
        assert all(registry_of_sources.type_of_suffix(end) is one for end in one.suffixes)
        assert all(registry_of_sources.type_of_address(f"{s}x") is one for s in one.schemes)
