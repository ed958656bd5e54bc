"""Variables and defaults of release files: types, places, and precedence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.documents.encoding import canonical
from dprelease.errors import DpReleaseError, Findings
from dprelease.planning.declaration_findings import (
    load_declaration,
    queries_and_findings,
    single_errors,
)
from dprelease.query.resolve import resolve
from dprelease.schema.load import read_declaration, read_table
from dprelease.schema.localized_text import Documented
from dprelease.schema.release_parts.about import AboutSpec
from dprelease.schema.release_parts.variables import parse_assignments
from tests.manifest_files import with_digest

SCHEMA = """\
table: visits
source: visits_${year}.csv
columns:
  city: {type: category, values: [Bern, O'Hara]}
  day: {type: date, lower: 2020-01-01, upper: 2030-12-31}
  pay: {type: number, lower: 0, upper: 100, step: 1}
  year: {type: integer, lower: 2000, upper: 2100}
  note: {type: text}
"""
RELEASE = """\
title: Visits of ${year}, as of ${since} in ${place}; $${year} costs ${least}
variables: {year: integer, since: date, place: text, least: number}
tables: ["visits_${year}.yaml"]
budget: {epsilon: 1}
queries:
  by_city:
    from: visits
    where: year = ${year} AND day >= ${since} AND city = ${place} AND pay > ${least}
    group_by: [city]
    columns:
      visits: {count: "*"}
output: out/${year}
"""
VALUES = {"year": "2026", "since": "2026-03-01", "place": "O'Hara", "least": "-0.5"}


def write(
    folder: Path, release: str = RELEASE, schema: str = SCHEMA, defaults: str | None = None
) -> Path:
    (folder / "visits_2026.yaml").write_text(schema)
    (folder / "visits_2026.csv").write_text("city,day,pay,year\nBern,2026-05-05,5,2026\n")
    (folder / "release.yaml").write_text(release)
    if defaults is not None:
        (folder / "defaults.yaml").write_text(defaults)
    return folder / "release.yaml"


def codes(path: Path, variables: Mapping[str, str] | None) -> list[str]:
    """Return codes, lines and keys of all findings; nothing if there are none."""
    try:
        found = queries_and_findings(load_declaration(path, variables))[1]
    except DpReleaseError as error:
        found = list(single_errors(error))
    return [f"{e.code} {e.place.file}:{e.place.line} {e.place.key}" for e in found]


def test_release_with_a_year_variable(tmp_path: Path) -> None:
    path = write(tmp_path)
    release = dprelease.read_release(
        path, variables={**VALUES, "year": 2026, "since": date(2026, 3, 1)}
    )
    spec = release.declaration.spec
    assert release.title == "Visits of 2026, as of 2026-03-01 in O'Hara; ${year} costs -0.5"
    assert spec.output == "out/2026"
    where = "year = 2026 AND day >= DATE '2026-03-01' AND city = 'O''Hara' AND pay >  -0.5"
    assert spec.queries["by_city"].where == where
    published = release.run()
    assert published == tmp_path / "out" / "2026"
    record = json.loads((published / "manifest.json").read_text())
    assert record["declaration"]["variables"] == VALUES
    assert record["declaration"]["texts"]["release.yaml"] == RELEASE  # as it was written
    assert record["title"] == release.title
    assert dprelease.verify(published).ok
    for forged in (
        {**VALUES, "least": "0"},
        {**VALUES, "year": "2025"},
        {"year": "2026"},
        {},
        {**VALUES, "more": "1"},
    ):
        record["declaration"]["variables"] = forged
        copied = Path(shutil.copytree(published, tmp_path / "forged", dirs_exist_ok=True))
        (copied / "manifest.json").write_bytes(canonical(with_digest(record)))
        assert not dprelease.verify(copied).ok, forged


def test_releases_without_variables(tmp_path: Path) -> None:
    plain = RELEASE.replace("${year}", "2026").replace(" AND day >= ${since}", "")
    plain = plain.replace(
        "variables: {year: integer, since: date, place: text, least: number}\n", ""
    )
    plain = plain.replace(" AND city = ${place} AND pay > ${least}", "")
    plain = plain.replace(", as of ${since} in ${place}; $2026 costs ${least}", "")
    path = write(tmp_path, plain, SCHEMA.replace("${year}", "2026"))
    record = json.loads((dprelease.read_release(path).run() / "manifest.json").read_text())
    assert "variables" not in record["declaration"]


FITTING = {
    "integer": ["0", "-1", "2026", "9" * 18],
    "number": ["0", "-0.5", "10.250", "3"],
    "date": ["2026-02-28", "2024-02-29"],
    "text": ["a", "O'Hara", 'say "hi"', "a; DROP TABLE x --", "${year}", "é", "' OR '1'='1", "\\'", "/*", "x" * 200],
}  # fmt: skip
UNFIT = {
    "integer": ["", " 1", "1 ", "01", "+1", "1.0", "1e3", "0x1", "1_000", "١", "--1", "1 OR 1=1", "9" * 19],
    "number": ["", "1.", ".5", "1e3", "nan", "inf", "1,5", "1;2", "0.5 "],
    "date": ["", "2026-2-28", "20260228", "2026-02-30", "2026-W05-1", "today", "2026-02-28T00:00"],
    "text": ["", " ", "a\nb", "a\0b", "\u202e", "\x1b[2J", "\u200b", "x" * 201, "\ud800"],
}  # fmt: skip
ASKS = {
    "integer": "year = ${v}",
    "number": "pay > ${v}",
    "date": "day = ${v}",
    "text": "note <> ${v}",
}
KINDS = [(kind, value) for kind in FITTING for value in FITTING[kind]]
NOT = [(kind, value) for kind in UNFIT for value in UNFIT[kind]]


def small(kind: str, where: str, title: str = "t") -> str:
    text = RELEASE[RELEASE.index("tables:") :].replace("${year}", "2026")
    i, j = text.index("    where:"), text.index("    group_by:")
    head = f"title: {json.dumps(title)}\nvariables: {{v: {kind}}}\n"
    return head + text[:i] + f"    where: {json.dumps(where)}\n" + text[j:]


@pytest.mark.parametrize(("kind", "value"), KINDS)
def test_variable_values_are_literals(tmp_path: Path, kind: str, value: str) -> None:
    """Whatever they hold: the condition has the same form for each, and compares with the value."""
    import duckdb

    path = write(tmp_path, small(kind, ASKS[kind], "${v}"), SCHEMA.replace("${year}", "2026"))
    declaration = read_declaration(path, {"v": value})
    resolve(declaration)
    assert declaration.spec.title == value
    where = declaration.spec.queries["by_city"].where
    assert where is not None
    literal = where.split(" ", 2)[2]
    with duckdb.connect() as connection:
        ((kept,),) = connection.execute(f"SELECT CAST({literal} AS VARCHAR)").fetchall()
    assert kept == value


@pytest.mark.parametrize(("kind", "value"), NOT)
def test_variable_values_of_wrong_type_are_refused(tmp_path: Path, kind: str, value: str) -> None:
    path = write(tmp_path, small(kind, ASKS[kind]), SCHEMA.replace("${year}", "2026"))
    assert codes(path, {"v": value}) == ["DP-VAR-004 release.yaml:2 variables.v"]


CONDITIONS = [
    "year = ${v}",
    "year=${v}",
    "(year) > ${v} AND year < (${v})",
    "year IN (${v}, 3)",
    "year = -${v}",
    "note = '$${v}' OR year = ${v}",
    "year BETWEEN ${v} AND (${v} + ${v})",
]
NO_LITERALS = [
    "city = '${v}'",
    "city = 'a ${v} b'",
    'city = "${v}"',
    "city${v} = 3",
    "year = 1${v}",
    "year = ${v}0",
    "year = ${v}${v}",
    "year = 3 -- ${v}",
    "year = 3 /* ${v} */",
    "year ${v} > 3",
    '"and" ${v} > 3',
    "abs ${v} > 3",
    "(year) ${v} > 3",
    "DATE ${v} < day",
    "city = E'\\\\'${v}'",
    "year = 1.${v}",
    "year = 3e${v}",
]


@pytest.mark.parametrize("where", CONDITIONS)
@pytest.mark.parametrize("value", ["5", "-5"])
def test_conditions_with_literals(tmp_path: Path, where: str, value: str) -> None:
    path = write(tmp_path, small("integer", where), SCHEMA.replace("${year}", "2026"))
    assert codes(path, {"v": value}) == []


@pytest.mark.parametrize("where", NO_LITERALS)
def test_variables_outside_of_literals_are_refused(tmp_path: Path, where: str) -> None:
    """In quotes, in comments, in words: it is refused, not pasted."""
    for kind, value in (("integer", "5"), ("text", "a"), ("text", "'")):
        path = write(tmp_path, small(kind, where), SCHEMA.replace("${year}", "2026"))
        found = codes(path, {"v": value})
        assert found == ["DP-VAR-006 release.yaml:8 queries.by_city.where"], (kind, value, found)


NO_NAMES = [
    "../x",
    "a/b",
    "..",
    ".",
    "a\\b",
    "*",
    "a?",
    "[a]",
    "~",
    "C:",
    "a.",
    " a",
    "{a,b}",
    "a|b",
    "s3:x",
]


@pytest.mark.parametrize("value", NO_NAMES)
@pytest.mark.parametrize("spot", ["output", "tables", "ledger", "source"])
def test_variable_values_with_paths_are_refused(tmp_path: Path, value: str, spot: str) -> None:
    schema = SCHEMA.replace("${year}", "2026")
    text = small("text", "note = ${v}")
    if spot == "output":
        text = text.replace("output: out/2026", "output: out/${v}")
    elif spot == "tables":
        text = text.replace("visits_2026.yaml", "${v}.yaml")
    elif spot == "ledger":
        text += "ledger: ledger_${v}.sqlite\n"
    else:
        schema = schema.replace("visits_2026.csv", "visits_${v}.csv")
    path = write(tmp_path, text, schema)
    found = codes(path, {"v": value})
    assert [one.split(" ")[0] for one in found][:1] == ["DP-VAR-007"], found


def edit_release(*pairs: tuple[str, str]) -> str:
    text = RELEASE
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    return text


PLACED: list[tuple[str, str, dict[str, str], list[str]]] = [
    ("nothing is set", RELEASE, {}, [f"DP-VAR-002 release.yaml:2 variables.{n}" for n in VALUES]),
    ("one is missing", RELEASE, {k: v for k, v in VALUES.items() if k != "since"}, ["DP-VAR-002 release.yaml:2 variables.since"]),
    ("one is unknown", RELEASE, {**VALUES, "yaer": "1"}, ["DP-VAR-001 release.yaml:2 variables"]),
    ("one is nowhere", edit_release((" AND pay > ${least}", ""), (" costs ${least}", "")), VALUES, ["DP-VAR-003 release.yaml:2 variables.least"]),
    ("one is not declared", edit_release(("output: out/${year}", "output: out/${yaer}")), VALUES, ["DP-VAR-005 release.yaml:12 output"]),
    ("in a name of a column", edit_release(("[city]", "['${place}']")), VALUES, ["DP-VAR-006 release.yaml:9 queries.by_city.group_by[0]"]),
    ("in a budget", edit_release(("epsilon: 1", "epsilon: '${least}'")), VALUES, ["DP-VAR-006 release.yaml:4 budget.epsilon"]),
    ("of no type", edit_release(("year: integer", "year: whole")), VALUES, ["DP-DECL-003 release.yaml:2 variables.year"]),
    ("of no name", edit_release(("year: integer", "2year: text, year: integer")), {**VALUES, "2year": "1"}, ["DP-DECL-003 release.yaml:2 variables.2year"]),
    ("a list of names", edit_release(("{year: integer, since: date, place: text, least: number}", "[year]")), {}, ["DP-DECL-003 release.yaml:2 variables"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "values", "found"), [pytest.param(*one[1:], id=one[0]) for one in PLACED]
)
def test_variable_errors_name_their_place(
    tmp_path: Path, text: str, values: dict[str, str], found: list[str]
) -> None:
    told = codes(write(tmp_path, text), values)
    assert [one for one in told if not one.startswith("DP-YAML-001")] == found


def test_variables_in_tables_are_refused(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises((DpReleaseError, Findings), match="DP-YAML-008"):
        read_table(tmp_path / "visits_2026.yaml")
    escaped = tmp_path / "escaped.yaml"
    escaped.write_text(SCHEMA.replace("visits_${year}.csv", "$${year}.csv"))
    assert read_table(escaped).table.source.path == "${year}.csv"  # type: ignore[union-attr]


@pytest.mark.parametrize("words", [["year"], ["=1"], ["1x=1"], ["a=1", "a=2"], ["a b=1"], [""]])
def test_invalid_set_options_are_refused(words: list[str]) -> None:
    with pytest.raises(DpReleaseError, match="DP-VAR-008"):
        parse_assignments(words)
    assert parse_assignments(["a=b=c", "b="]) == {"a": "b=c", "b": ""}


def test_commands_with_variables(tmp_path: Path) -> None:
    path = str(write(tmp_path))
    sets = [word for name, value in VALUES.items() for word in ("--set", f"{name}={value}")]
    for words, code, text in (
        (["check", path], 2, "DP-VAR-002"),
        (["check", path, *sets], 0, "in order"),
        (["check", path, *sets, "--set", "year"], 2, "DP-VAR-008"),
        (["check", path, *sets, "--set", "year=2027"], 2, "DP-VAR-008"),
        (["plan", path, *sets], 0, "by_city.visits"),
        (["run", path, *sets, "--dry-run"], 0, "2026"),
        (["run", path, *sets], 0, "out/2026"),
        (["verify", str(tmp_path / "out/2026")], 0, "private"),
    ):
        done = CliRunner().invoke(cli.app, words)
        assert (done.exit_code, text in done.output) == (code, True), (words, done.output)


DEFAULTS = """\
tables: [visits_2026.yaml]
budget: {epsilon: 2, delta: 1e-9}
mechanism: laplace
variables: {year: integer}
"""
SHARING = """\
title: Visits of ${year}
defaults: defaults.yaml
budget: {epsilon: 1}
queries:
  by_city: {from: visits, columns: {visits: {count: "*"}}}
output: out/${year}
"""


def test_defaults_apply_to_missing_keys(tmp_path: Path) -> None:
    path = write(tmp_path, SHARING, defaults=DEFAULTS)
    release = dprelease.read_release(path, variables={"year": 2026})
    spec = release.declaration.spec
    assert (spec.mechanism.name, spec.budget.epsilon, spec.budget.delta) == ("laplace", 1, 0)
    published = release.run()
    record = json.loads((published / "manifest.json").read_text())
    assert record["declaration"]["texts"]["defaults.yaml"] == DEFAULTS
    assert dprelease.verify(published).ok
    (tmp_path / "defaults.yaml").unlink()
    assert dprelease.verify(published).ok


WRONG: list[tuple[str, str, str | None, list[str]]] = [
    ("no file", SHARING, None, ["DP-YAML-001 release.yaml:2 defaults"]),
    ("no YAML", SHARING, "a: [", ["DP-YAML-003 defaults.yaml:2 "]),
    ("a list", SHARING, "[a]", ["DP-YAML-007 defaults.yaml:None "]),
    ("elsewhere", SHARING.replace("defaults.yaml", "../defaults.yaml"), DEFAULTS, ["DP-VAR-009 release.yaml:2 defaults"]),
    ("itself", SHARING.replace("defaults.yaml", "release.yaml"), DEFAULTS, ["DP-VAR-009 release.yaml:2 defaults"]),
    ("queries", SHARING, DEFAULTS + "queries: {}\n", ["DP-VAR-010 defaults.yaml:5 queries"]),
    ("defaults of defaults", SHARING, DEFAULTS + "defaults: more.yaml\n", ["DP-VAR-010 defaults.yaml:5 defaults"]),
    ("a typo", SHARING, DEFAULTS.replace("mechanism", "mecanism"), ["DP-VAR-010 defaults.yaml:3 mecanism"]),
    ("an unknown mechanism", SHARING, DEFAULTS.replace("laplace", "lapalce"), ["DP-MECH-004 defaults.yaml:3 mechanism"]),
    ("a variable of no type", SHARING, DEFAULTS.replace("integer", "whole"), ["DP-DECL-003 defaults.yaml:4 variables.year"]),
    ("a key twice", SHARING, DEFAULTS + "mechanism: gaussian\n", ["DP-YAML-005 defaults.yaml:5 mechanism"]),
    ("a variable in a budget", SHARING.replace("budget: {epsilon: 1}\n", ""), DEFAULTS.replace("epsilon: 2", "epsilon: '${year}'"), ["DP-VAR-006 defaults.yaml:2 budget.epsilon"]),
    ("what the release says otherwise", SHARING, DEFAULTS.replace("epsilon: 2", "epsilon: x"), []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("release", "defaults", "found"), [pytest.param(*one[1:], id=one[0]) for one in WRONG]
)
def test_wrong_defaults_are_refused(
    tmp_path: Path, release: str, defaults: str | None, found: list[str]
) -> None:
    assert codes(write(tmp_path, release, defaults=defaults), {"year": "2026"}) == found


def test_json_schemas_have_variables_and_defaults() -> None:
    import jsonschema
    import yaml

    from dprelease.documents.json_schemas import render_schema

    def problems(text: str, document: str = "release") -> list[Any]:
        found = yaml.load(text, Loader=yaml.BaseLoader)
        validator = jsonschema.Draft202012Validator(json.loads(render_schema(document)))
        return list(validator.iter_errors(found))

    assert problems(SHARING) == []
    assert problems(RELEASE) == []
    assert problems(SHARING.replace("defaults: defaults.yaml\n", "")) != []
    assert problems(DEFAULTS, "defaults") == []
    assert problems(DEFAULTS + "queries: {}\n", "defaults") != []
    assert problems("mechanism: laplace\n", "defaults") == []


READERS = {
    "a text": "As of ${year}",
    "a text by language": {"en": "As of ${year}", "fr": "Fin ${year}"},
    "a list": ["As of ${year}", "In ${year}"],
    "a list by language": [{"en": "As of ${year}", "fr": "Fin ${year}"}],
}
"""What a text for readers may be."""


def for_readers() -> list[tuple[tuple[str, ...], str, str]]:
    """Return every text of a release that readers see: where it stands, its key, and as what."""
    told = [(("about",), name) for name in AboutSpec.model_fields if name != "languages"]
    for keys in ((), ("columns", "n"), ("tables", "q_city")):
        told += [(("queries", "q", *keys), name) for name in Documented.model_fields]
    places = [((), "title", "a text")]
    for keys, name in told:
        kinds = ["a text"]
        if name in ("title", "description", "label", "footnotes", "notes"):
            kinds.append("a text by language")
        if name in ("footnotes", "notes"):
            kinds += ["a list", "a list by language"]
        places += [(keys, name, kind) for kind in kinds]
    return places


@pytest.mark.parametrize(("keys", "name", "kind"), for_readers())
def test_variables_in_every_text_for_readers(
    tmp_path: Path, keys: tuple[str, ...], name: str, kind: str
) -> None:
    own = {"methodology": "https://x.example/${year}", "period": "${year}"}
    release: dict[str, Any] = {
        "title": "t",
        "variables": {"year": "integer"},
        "about": {"languages": ["en", "fr"]},
        "tables": ["visits_2026.yaml"],
        "budget": {"epsilon": 1},
        "queries": {
            "q": {
                "from": "visits",
                "marginals": [["city"]],
                "tables": {"q_city": {}},
                "columns": {"n": {"count": "*"}},
            }
        },
        "output": "out",
    }
    place = release
    for key in keys:
        place = place[key]
    place[name] = own.get(name, READERS[kind])
    path = write(tmp_path, json.dumps(release), SCHEMA.replace("${year}", "2026"))
    assert codes(path, {"year": "2026"}) == []
    assert "${" not in read_declaration(path, {"year": "2026"}).spec.model_dump_json()
    assert codes(path, {"year": "20\u200b26"}) == ["DP-VAR-004 release.yaml:1 variables.year"]
