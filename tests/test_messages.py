"""The messages about the mistakes of `mistakes.yaml`: place, code, cause and fix.

Some are compared as a whole. Of the others, cause and fix must follow the template of their code.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.errors import DpReleaseError, Findings, UsageError, error_tree
from dprelease.planning.declaration_findings import load_declaration, single_errors
from dprelease.schema.load import read_declaration
from tests.covering import sampled
from tests.messages import RELEASE, SCHEMA, write, write_with

STATE = "\n  State  no row was read, no budget was spent."
MISTAKES: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parent / "mistakes.yaml").read_text(encoding="utf-8")
)
FILES = {name: mistake for name, mistake in MISTAKES["files"].items() if "several" not in mistake}
SEVERAL = {name: mistake for name, mistake in MISTAKES["files"].items() if "several" in mistake}
KINDS = {
    code: kind
    for kind in vars(error_tree).values()
    if isinstance(kind, type) and issubclass(kind, DpReleaseError)
    for code in kind.templates
}
FINDING = re.compile(r"(?:^(\S.*)\n)?^(DP-[A-Z]+-\d+)  (.*)\n  Fix    (.*)$", re.M)


def message_of(folder: Path, *words: str) -> tuple[int, str]:
    """Return the exit code of a command, and its message without states and folders."""
    done = CliRunner().invoke(cli.app, list(words))
    assert done.stderr.count(STATE) == done.stderr.count("  Fix    ") >= 1, done.stderr
    return done.exit_code, done.stderr.strip().replace(STATE, "").replace(f"{folder}/", "")


def check_message(message: str, mistake: dict[str, Any]) -> int:
    """Compare a message with what a mistake expects; return the exit code of its first finding."""
    found = FINDING.findall(message)
    if "message" in mistake:
        assert message == mistake["message"]
    else:
        assert [_finding(place, code, cause) for place, code, cause, _ in found] == mistake["finds"]
    for _, code, cause, fix in found:
        template = KINDS[code].templates[code]
        assert _follows(cause, template.cause), cause
        assert _follows(fix, template.fix), fix
    return KINDS[found[0][1]].exit_code


def _finding(place: str, code: str, cause: str) -> str:
    suggestion = re.search(r"did you mean [^;.?]*", cause)
    words = code if suggestion is None else f"{code}, {suggestion[0]}"
    return f"{place}: {words}" if place else words


def _follows(text: str, template: str) -> bool:
    parts = re.split(r"\{\w+\}", re.sub(r"(?<=\{)\{|\}(?=\})", "", template))
    return re.fullmatch(".*".join(map(re.escape, parts)), text) is not None


def _edits(mistake: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [
        (file, old, new)
        for file, replaced in mistake.items()
        if isinstance(replaced, dict)
        for old, new in replaced.items()
    ]


@pytest.mark.share(0.25)
@pytest.mark.parametrize("mistake", FILES.values(), ids=FILES)
def test_messages_about_files(tmp_path: Path, mistake: dict[str, Any]) -> None:
    write_with(tmp_path, _edits(mistake))
    code, message = message_of(tmp_path, "check", str(tmp_path / "release.yaml"))
    assert code == check_message(message, mistake)


@pytest.mark.parametrize("mistake", SEVERAL.values(), ids=SEVERAL)
def test_all_errors_are_reported_at_once(tmp_path: Path, mistake: dict[str, Any]) -> None:
    """From every command, and in Python."""
    write_with(tmp_path, _edits(mistake))
    release = tmp_path / "release.yaml"
    with pytest.raises(DpReleaseError) as caught:
        dprelease.read_release(release).plan()
    message = str(caught.value).replace(STATE, "")
    code = check_message(message, mistake)
    for command in ("check", "plan", "run"):
        assert message_of(tmp_path, command, str(release)) == (code, message)


@pytest.mark.parametrize("mistake", MISTAKES["statements"], ids=lambda one: one["statement"])
def test_messages_about_statements(tmp_path: Path, mistake: dict[str, Any]) -> None:
    """Places are parts of the statement, or options: there is no file."""
    write(tmp_path)
    words = [mistake["statement"], "--schema", str(tmp_path / "people.yaml"), "--epsilon", "1"]
    options = mistake.get("options", "").split()
    code, message = message_of(tmp_path, "sql", *words, *options)
    assert code == check_message(message, mistake)


def test_percentages_are_accepted(tmp_path: Path) -> None:
    for new in (
        "margin: 95 %",
        "suppress_above: 30 %",
        "suppress_above: 0.3",
        "suppress_above: 300 %",
    ):
        write(tmp_path, "release.yaml", "sum: income", f"sum: income\n        {new}")
        read_declaration(tmp_path / "release.yaml")


@pytest.mark.parametrize(
    ("words", "mistake"), MISTAKES["commands"].items(), ids=MISTAKES["commands"]
)
def test_messages_about_commands(tmp_path: Path, words: str, mistake: dict[str, Any]) -> None:
    write(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "utf16.yaml").write_text(RELEASE, encoding="utf-16")
    (tmp_path / "latin.yaml").write_text(RELEASE.replace("People", "Pérou"), encoding="latin-1")
    (tmp_path / "sheet.xlsx").write_bytes(b"PK\x03\x04" + bytes(64))
    for name, table in {"r16": "utf16.yaml", "rr": "release.yaml", "rv": "values.yaml"}.items():
        text = RELEASE.replace("people.yaml", table)
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    values = SCHEMA.replace("values: [F, M]", "values_from: sexes.csv")
    (tmp_path / "values.yaml").write_text(values, encoding="utf-8")
    (tmp_path / "sexes.csv").write_text("sex\nF\n", encoding="utf-16")
    command, name, *options = words.split()
    code, message = message_of(tmp_path, command, str(tmp_path / name), *options)
    assert code == check_message(message, mistake)


@pytest.mark.parametrize(("call", "mistake"), MISTAKES["calls"].items(), ids=MISTAKES["calls"])
def test_messages_about_calls(tmp_path: Path, call: str, mistake: dict[str, Any]) -> None:
    """A wrong argument is a TypeError, explained in terms of the question."""
    write(tmp_path)
    frame = pd.DataFrame({"person": [1], "sex": ["F"], "age": [3], "income": [2.5]})
    session = dprelease.Session(tmp_path / "people.yaml", epsilon=1)
    frame.dp.use(session)
    with pytest.raises((UsageError, TypeError)) as caught:
        eval(f"frame.dp.{call}", {"frame": frame, "pd": pd})
    assert isinstance(caught.value, UsageError)
    assert isinstance(caught.value, TypeError)
    assert str(caught.value).endswith(STATE)
    check_message(str(caught.value).removesuffix(STATE), mistake)
    assert session.spent.epsilon == 0


WRONG: tuple[object, ...] = ("dropp", ["a"], {"a": "b"}, None, "", "-1", "1e400", [], {})


def _changed(value: object) -> Iterator[object]:
    """Yield a document with one value replaced by a wrong one, or one key misspelt."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield {**{k: v for k, v in value.items() if k != key}, f"{key}x": inner}
            for changed in _changed(inner):
                yield {**value, key: changed}
    if isinstance(value, list):
        for i, inner in enumerate(value):
            for changed in _changed(inner):
                yield [*value[:i], changed, *value[i + 1 :]]
    yield from WRONG


@pytest.mark.parametrize("file", ["release.yaml", "people.yaml"])
def test_messages_do_not_mention_python_types(tmp_path: Path, file: str) -> None:
    """Each value of both files, replaced by values of other kinds."""
    write(tmp_path)
    text = {"release.yaml": RELEASE, "people.yaml": SCHEMA}[file]
    # As the reader has it: every scalar is a text.
    document = yaml.load(text, Loader=yaml.BaseLoader)
    found = 0
    for changed in sampled(_changed(copy.deepcopy(document)), 0.2):
        (tmp_path / file).write_text(yaml.safe_dump(changed, sort_keys=False), encoding="utf-8")
        try:
            read_declaration(tmp_path / "release.yaml")
        except DpReleaseError as error:
            for finding in error.errors if isinstance(error, Findings) else (error,):
                text = str(finding)
                assert not re.search(r"input should|instance|valid (tuple|dict|string)", text), text
                assert not re.search(r": \.$|'this column'|\{\w+\}", text, re.M), text
                assert finding.place.file, text
                found += 1
    assert found > 20


FURTHER = """\
  by_age:
    from: people
    derive: {half: {expression: age / 2, type: integer, lower: 0, upper: 60}}
    histogram: {column: age, edges: [0, 18, 65]}
    columns:
      halves: {sum: half, mechanism: {name: asymmetric_laplace, k: 2}}
      ratio: {ratio: [income, half]}
      persons: {count_distinct: person}
"""


@pytest.mark.share(0.25)
@pytest.mark.parametrize("file", ["release.yaml", "people.yaml"])
def test_one_mistake_is_reported_once(tmp_path: Path, file: str) -> None:
    """Values that depend on a wrong value are not reported: correcting it would make them right."""
    write(tmp_path)
    release = RELEASE.replace("output:", f"{FURTHER}output:")
    (tmp_path / "release.yaml").write_text(release, encoding="utf-8")
    document = yaml.load({"release.yaml": release, "people.yaml": SCHEMA}[file], yaml.BaseLoader)
    found = 0
    for changed in sampled(_changed(copy.deepcopy(document)), 0.2):
        text = yaml.safe_dump(changed, sort_keys=False)
        (tmp_path / file).write_text(text, encoding="utf-8")
        form: list[str] = []
        try:
            read_declaration(tmp_path / "release.yaml")
        except DpReleaseError as error:
            form = [str(finding) for finding in single_errors(error)]
        if not form:
            continue
        with pytest.raises(DpReleaseError) as caught:
            load_declaration(tmp_path / "release.yaml")
        assert sorted(str(finding) for finding in single_errors(caught.value)) == sorted(form), text
        found += 1
    assert found > 20


@pytest.mark.parametrize("name", ["release", "table", "manifest"])
def test_schemas_are_printed(name: str) -> None:
    """The schemas that messages refer to are installed with the package."""
    done = CliRunner().invoke(cli.app, ["schema", name])
    stored = Path(__file__).parents[1] / "schemas" / "json" / f"{name}.schema.json"
    assert done.exit_code == 0
    assert done.stdout == stored.read_text(encoding="utf-8")
