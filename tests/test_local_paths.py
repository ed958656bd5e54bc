"""Every path that a person can give, found by its type: a URI in its place is refused at once.

A new option, argument or key is found too; one of texts that is no path is listed as such here.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import BaseModel
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.errors import DeclarationError, DpReleaseError
from dprelease.errors.local_paths import check_paths, uri_fields
from dprelease.planning.declaration_findings import load_declaration, single_errors
from dprelease.schema.field_types import to_local_path, to_text
from dprelease.schema.release import ReleaseSpec
from dprelease.schema.table import Table
from dprelease.signatures.keys import AgentKey
from tests.messages import write
from tests.release import build

URIS = [
    "s3://bucket/out",
    "gs://bucket/out",
    "hdfs://host:8020/out",
    "hdfs:/out",
    "dbfs:/out",
    "file:///abs/out",
    "file:/abs/out",
    "abfss://box@account.dfs.core.windows.net/out",
    "HTTP://host/out",
    "s3a+x.y-1://bucket/out",
]

TEXTS = (
    "about area begins codes column delta engine epsilon every gone header if_published invariant language "
    "mechanism name neighbours new_cells old_cells owner param private_keys query records rho rho_delta "
    "rows schema statement table to total unit variables wide"
)
"""Arguments of commands that are texts, and no paths."""
PATHS_AS_TEXTS = {
    ("init", "source"),
    ("profile", "source"),
    ("run", "source"),
    ("rehearse", "on"),
}

TEXT_KEYS = (
    "acknowledge column columns comment config count count_distinct cube cut delimiter derive down_to events "
    "controls correlation covariance covariance_pop effective_size "
    "expression fill frequencies group_by groupings hierarchy id keys level marginals marginals_at master max mean "
    "median memory_limit min missing mode name nulls of on others over owner partition population "
    "quote ratio replicates rollup rows sheet source stddev sum table title top_k unit values variance weight weighted_count where wide within "
    "without until strip names marks codes constants marks_of"
)
URI_KEYS = {"Source.path", "SparkSpec.staging"}
"""Keys of files that may hold URIs: of Spark, or of a server."""


def _commands(app: typer.Typer, way: str = "") -> Iterator[tuple[str, Callable[..., Any]]]:
    for info in app.registered_commands:
        assert info.callback is not None
        yield f"{way}{info.name or info.callback.__name__}", info.callback
    for group in app.registered_groups:
        assert group.typer_instance is not None
        yield from _commands(group.typer_instance, f"{way}{group.name} ")


def _arguments() -> Iterator[tuple[str, Callable[..., Any], str, Any]]:
    for way, function in _commands(cli.app):
        for name, hint in typing.get_type_hints(inspect.unwrap(function)).items():
            kinds = {hint, *typing.get_args(hint)}
            kinds |= {kind for one in kinds for kind in typing.get_args(one)}
            if kinds & {Path, str}:
                yield way, function, name, kinds


def test_text_options_of_commands_are_no_paths() -> None:
    texts = {(way, name) for way, _, name, kinds in _arguments() if Path not in kinds}
    assert {name for way, name in texts - PATHS_AS_TEXTS if (way, name) != ("attack", "on")} <= {
        *TEXTS.split()
    }
    assert texts >= PATHS_AS_TEXTS


@pytest.mark.parametrize(
    ("function", "name", "kinds"),
    [
        pytest.param(function, name, kinds, id=f"{way} {name}")
        for way, function, name, kinds in _arguments()
        if Path in kinds or (way, name) == ("init", "source")
    ],
)
def test_commands_refuse_uris(
    function: Callable[..., Any],
    name: str,
    kinds: set[Any],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    given: Any = Path("s3://bucket/x") if Path in kinds else "s3://bucket/x"
    several_paths = any(typing.get_origin(kind) is list for kind in kinds)
    with pytest.raises(typer.Exit) as end:
        function(**{name: [given] if several_paths else given})
    assert end.value.exit_code == 2
    assert "DP-PATH-001  's3://.../x'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("uri", URIS)
def test_refused_uris_publish_and_charge_nothing(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    for words in (
        ["run", "release.yaml", "--output", uri],
        ["rehearse", "release.yaml", "--on", uri],
    ):
        ended = CliRunner().invoke(cli.app, words)
        assert ended.exit_code == 2, ended.output
        assert "DP-PATH-001" in ended.output
        assert "no row was read, no budget was spent" in ended.output
    assert sorted(tmp_path.rglob("*")) == before


def _functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in dprelease.__all__:
        made = getattr(dprelease, name)
        if inspect.isclass(made):
            yield f"{name}.__init__", made
            for inner, function in inspect.getmembers(made, inspect.isfunction):
                if not inner.startswith("_"):
                    yield f"{name}.{inner}", types.MethodType(function, object())
        elif callable(made):
            yield name, made


OTHERS = {"districts", "on"}
"""Parameters that may be paths, and whose types don't say so."""


@pytest.mark.parametrize(
    ("function", "name"),
    [
        pytest.param(function, name, id=f"{way} {name}")
        for way, function in _functions()
        for name, one in inspect.signature(function).parameters.items()
        if name in OTHERS or any(word in str(one.annotation) for word in ("Path", "Schemas"))
    ],
)
@pytest.mark.parametrize("kind", [str, Path])
def test_functions_refuse_uris(function: Callable[..., Any], name: str, kind: type) -> None:
    needed: dict[str, Any] = {
        one.name: "x"
        for one in inspect.signature(function).parameters.values()
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    }
    value: Any = kind("s3://bucket/x")
    needed |= {"key": AgentKey(Path("x"), b"")} if "key" in needed else {}
    with pytest.raises(DeclarationError, match="DP-PATH-001"):
        function(**{**needed, name: [value] if name == "folders" else value})


def _fields(model: type[BaseModel], seen: set[type]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the fields of a model, and of all inside of it, that are texts; with what reads them."""
    if model in seen:
        return
    seen.add(model)
    for name, one in model.model_fields.items():
        todo: list[Any] = [one.annotation, *one.metadata]
        while todo:
            part = todo.pop()
            read = getattr(part, "func", None)
            if read in (to_text, to_local_path):
                yield f"{model.__name__}.{name}", read
            if inspect.isclass(part) and issubclass(part, BaseModel):
                yield from _fields(part, seen)
            todo += [*typing.get_args(part), *getattr(part, "__metadata__", ())]


def test_path_keys_are_listed() -> None:
    """Every key that is a path is one here, and each text key was looked at once."""
    found = {*_fields(ReleaseSpec, seen := set()), *_fields(Table, seen)}
    assert {field for field, read in found if read is to_local_path} == set(KEYS)
    texts = {field for field, read in found if read is to_text}
    assert {field.partition(".")[2] for field in texts - URI_KEYS} <= {*TEXT_KEYS.split()}
    assert texts >= URI_KEYS


KEYS: dict[str, tuple[str, str, str]] = {
    "ReleaseSpec.tables": ("release.yaml", "  - people.yaml", "  - {}"),
    "ReleaseSpec.output": ("release.yaml", "out/people", "{}"),
    "ReleaseSpec.ledger": ("release.yaml", "output:", "ledger: {}\noutput:"),
    "ReleaseSpec.defaults": ("release.yaml", "output:", "defaults: {}\noutput:"),
    "DuckDBSpec.temp_directory": (
        "release.yaml",
        "output:",
        "duckdb: {{temp_directory: '{}'}}\noutput:",
    ),
    "ValuesFrom.file": ("people.yaml", "values: [F, M]", "values_from: '{}'"),
}


@pytest.mark.parametrize("uri", URIS)
@pytest.mark.parametrize("key", sorted(KEYS))
def test_path_keys_refuse_uris(key: str, uri: str, tmp_path: Path) -> None:
    file, old, new = KEYS[key]
    write(tmp_path, file, old, new.format(uri))
    with pytest.raises(DpReleaseError) as caught:
        load_declaration(tmp_path / "release.yaml")
    found = {(one.code, one.place.file) for one in single_errors(caught.value)}
    elsewhere = key == "ReleaseSpec.defaults"  # which names a file beside it, and no path at all
    assert found == {("DP-VAR-009" if elsewhere else "DP-PATH-001", file)}


def test_uri_with_one_slash_is_refused(tmp_path: Path) -> None:
    """What Spark takes for a URI is no path of the engine duckdb, which has no such folder."""
    write(tmp_path, "people.yaml", "people.csv", "hdfs:/data/people.parquet")
    with pytest.raises(DeclarationError, match="DP-PATH-001") as caught:
        load_declaration(tmp_path / "release.yaml")
    assert caught.value.place.key == "source.path" or caught.value.place.key == "source"


def test_errors_hide_secrets_of_uris() -> None:
    for uri in (
        "s3://key:secret@bucket/secret/out?sig=secret#secret",
        "s3://key:secret@bucket",
        "s3://bucket/key:secret@out/",
    ):
        fields = uri_fields(uri)
        assert fields is not None
        assert "secret" not in str(fields)


@pytest.mark.parametrize(
    "path", ["C:/out", "C:\\out", "a:b", "./s3:/x", "out/s3://x", "s3:", "1s:/x"]
)
def test_odd_names_are_accepted_as_paths(path: str) -> None:
    check_paths(path, [path], {"people": path}, None, 7, b"s3://x")


@pytest.mark.parametrize(
    ("path", "code"), [("~/out", "DP-PATH-002"), ("~", "DP-PATH-002"), ("out\udcff", "DP-PATH-003")]
)
def test_paths_misread_by_arrow_are_refused(path: str, code: str) -> None:
    for given in (path, Path(path), [Path(path)]):
        with pytest.raises(DeclarationError, match=code):
            check_paths(given)


@pytest.mark.parametrize("name", ["c:", "a:b", "file:x", "hdfs:x", "mock:x", "abfs:x"])
def test_names_that_look_like_schemes_are_folders(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative paths with a colon: published, verified and exported where they say."""
    monkeypatch.chdir(tmp_path)
    release = build.write(tmp_path)
    for words in (["run", str(release), "--output", f"{name}/o"], ["verify", f"{name}/o"]):
        ended = CliRunner().invoke(cli.app, words)
        assert ended.exit_code == 0, ended.output
    words = ["export", f"{name}/o", "--to", "csv", "--output", f"{name}/csv"]
    ended = CliRunner().invoke(cli.app, words)
    assert ended.exit_code == 0, ended.output
    assert (tmp_path / name / "o" / "manifest.json").is_file()
