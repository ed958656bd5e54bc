"""All commands escape names before they print them to a terminal."""

from __future__ import annotations

import json
import os
import traceback
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from dprelease import cli
from dprelease.errors import DataError, Findings, Place
from dprelease.errors.printable import one_line, printable
from dprelease.planning.charts import save_chart
from dprelease.scaffold.sketch import sketch
from tests.covering import sampled

KINDS = {
    "escape": "\x1b[2J",
    "bell": "\a",
    "delete": "\x7f",
    "back": "\b",
    "the control of eight bits": "\x9b31m",
    "next line of eight bits": "\x85",
    "from right to left": "\u202e",
    "isolate": "\u2066",
    "mark of direction": "\u200f",
    "no width": "\u200b",
    "joiner": "\u200d",
    "byte order mark": "\ufeff",
    "soft hyphen": "\u00ad",
    "letter that shows nothing": "\u3164",
    "variant": "\ufe0f",
    "tag": "\U000e0041",
    "variant beyond the first plane": "\U000e0100",
    "line end": "\nFORGED",
    "return": "\rFORGED",
    "form feed": "\fFORGED",
    "separator of lines": "\u2028FORGED",
    "tab": "\t",
}
HOSTILE = "é" + "".join(KINDS.values())
PLAIN = "plain"
BROKEN = {ord(c): None for c in "\r\n"}
"""What the names in the first line of a CSV file can't hold."""

RUN = CliRunner()


def check_escaped(text: str) -> None:
    """Fail for what a terminal would obey or hide, and for lines that names have begun."""
    for line in text.split("\n"):
        found = [c for c in line if not c.isprintable() or c in HOSTILE.replace("FORGED", "")[1:]]
        odd = {unicodedata.name(c, f"{ord(c):x}") for c in found} - NAMES
        assert not odd, (odd, line)
        assert not line.startswith("FORGED"), line


NAMES = {unicodedata.name(c) for c in "[2J31mFORGED"}


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_characters_are_escaped(kind: str) -> None:
    """JSON reads what is escaped as what it was; nothing that shows itself is touched."""
    text = f"naïve {KINDS[kind]} ‘日本’ עברית 𝄞"
    escaped = one_line(text)
    check_escaped(escaped)
    assert json.loads(f'"{escaped}"') == text
    assert escaped.startswith("naïve ")
    assert escaped.endswith(" ‘日本’ עברית 𝄞")
    check_escaped(printable(text).replace("\nFORGED", ""))
    assert printable("two\nlines") == "two\nlines"


IGNORABLE = (
    "00AD 034F 061C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164 FE00-FE0F FEFF "
    "FFA0 FFF0-FFF8 1BCA0-1BCA3 1D173-1D17A E0000-E0FFF"
)
"""Default_Ignorable_Code_Point of Unicode 15.1."""


def test_invisible_characters_are_escaped() -> None:
    for span in IGNORABLE.split():
        first, *last = (int(code, 16) for code in span.split("-"))
        for code in range(first, (last or [first])[0] + 1):
            assert one_line(chr(code)) != chr(code), hex(code)


def test_unicode_categories_are_escaped() -> None:
    """Whatever is a control, a format, a separator, private, half of a pair, or unassigned."""
    hidden = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    for code in (*range(0x20000), *range(0xE0000, 0xE0200), 0x10FFFD):
        escaped = one_line(chr(code)) != chr(code)
        if unicodedata.category(chr(code)) in hidden:
            assert escaped, hex(code)
        elif code < 0x300:
            assert escaped == (code == 0xA0), hex(code)


BERN = {"fill": "Bern", "others": "Bern"}
SCHEMA = {
    "table": "people",
    "owner": PLAIN,
    "size": 1000,
    "source": "people.csv",
    "privacy_unit": {"id": "person", "max_groups": 1, "max_rows_per_group": 1},
    "columns": {
        "person": {"type": "integer"},
        "city": {"type": "category", "values": ["Bern", "Oslo"]},
        "pay": {"type": "number", "lower": 0, "upper": 5000, "step": 1, "unit": "USD"},
    },
}
RELEASE = {
    "title": "People",
    "tables": ["people.yaml"],
    "budget": {"epsilon": 30},
    "mechanism": "laplace",
    "ledger": "ledger.sqlite",
    "queries": {
        "by_city": {
            "from": "people",
            "group_by": ["city"],
            "columns": {"persons": {"count": "*"}, "pay": {"sum": "pay"}},
        }
    },
    "output": "out",
}
LOCAL = {
    "title": "People",
    "mode": "local",
    "tables": ["people.yaml"],
    "budget": {"epsilon": 2, "neighbours": "replace"},
    "records": {"answers": {"from": "people", "columns": {"city": {}}}},
    "output": "local",
}


class Names:
    """The names of a small release, each of them hostile, and ending with what it names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.city, self.column = f"{HOSTILE}value", f"{HOSTILE}column"
        self.owner, self.title = f"{HOSTILE}owner", f"{HOSTILE}title"
        self.unit = f"{HOSTILE}unit"
        self.release = folder / f"{HOSTILE}release.yaml"
        self.local = folder / f"{HOSTILE}local.yaml"
        self.table = folder / f"{HOSTILE}schema.yaml"
        self.source = folder / f"{HOSTILE}source.parquet"
        self.csv = folder / f"{HOSTILE}source.csv"
        self.ledger = folder / f"{HOSTILE}ledger.sqlite"
        self.out = folder / f"{HOSTILE}output"

    def write(self) -> None:
        schema = SCHEMA | {"owner": self.owner, "source": self.source.name}
        schema["columns"] = SCHEMA["columns"] | {
            "city": {"type": "category", "values": ["Bern", self.city], **BERN},
            self.column: {**SCHEMA["columns"]["pay"], "unit": self.unit},
        }
        del schema["privacy_unit"]
        release = RELEASE | {"title": self.title, "tables": [self.table.name]}
        release |= {"ledger": self.ledger.name, "output": self.out.name}
        columns = {"persons": {"count": "*"}, "pay": {"sum": self.column}}
        query = {"from": "people", "group_by": ["city"], "columns": columns}
        release["queries"] = {"by_city": query}
        local = LOCAL | {"title": self.title, "tables": [self.table.name]}
        for path, held in ((self.table, schema), (self.release, release), (self.local, local)):
            path.write_text(yaml.safe_dump(held, sort_keys=False), encoding="utf-8")
        rows = {"person": range(40), "city": ["Bern"] * 40, "pay": [1] * 40}
        pq.write_table(pa.table({**rows, self.column: [9] * 40}), self.source)
        self.csv.write_text(f'person,"{self.column.translate(BROKEN)}"\n1,2\n', encoding="utf-8")

    def commands(self) -> list[list[object]]:
        """Return every command, in an order in which each finds what it needs."""
        sql = f'SELECT city, SUM(pay) AS "{self.column}" FROM people GROUP BY city'
        names = ["--table", "people", "--owner", self.owner]
        local = self.folder / "local"
        return [
            ["init", self.csv],
            ["init", self.source],
            ["init", self.source, "--peek"],
            ["init", self.source, "--unit", HOSTILE],
            ["init", self.source, "--output", self.table],
            ["init", self.source, "--output", f"{self.table}.new"],
            ["init", f"{self.csv}.none"],
            ["plan", self.release],
            ["ledger", "show", self.ledger],
            ["ledger", "init", self.ledger, *names, "--epsilon", "100"],
            ["ledger", "init", self.ledger, *names, "--epsilon", "100"],
            ["check", self.release],
            ["plan", self.release, "--explain"],
            ["run", self.release, "--dry-run"],
            ["run", self.release],
            ["run", self.release],
            ["verify", self.out],
            ["verify", self.out, "--ledger", self.ledger],
            ["verify", self.folder],
            ["ledger", "show", self.ledger],
            ["ledger", "history", self.ledger],
            ["ledger", "check", self.ledger, self.out],
            ["ledger", "recover", self.ledger],
            ["ledger", "export", self.ledger],
            ["sql", sql, "--schema", self.table, "--epsilon", "9"],
            ["sql", f'SELECT COUNT("{HOSTILE}") FROM x', "--schema", self.table, "--epsilon", "1"],
            ["plan", self.local],
            ["run", self.local, "--dry-run"],
            ["run", self.local],
            ["verify", local],
            ["estimate", local, "city"],
            ["estimate", local, HOSTILE],
            ["estimate", self.out, "city"],
            ["check", self.release, HOSTILE],
            [HOSTILE],
            ["check", f"--{HOSTILE}"],
            ["run", self.release, "--engine", HOSTILE],
            ["plan", self.release, "--plot", f"{self.out}.txt"],
            ["verify", f"{self.out}.none"],
            ["mechanisms", "compare", "--epsilon", HOSTILE],
        ]


def run_escaped(words: Sequence[object]) -> tuple[int, str]:
    """Return how a command ends and all that it prints, after a look at it."""
    done = RUN.invoke(cli.app, [str(word) for word in words])
    assert done.exit_code != 1, done.output
    check_escaped(done.stdout)
    check_escaped(done.stderr)
    return done.exit_code, done.stdout + done.stderr


SHOWN_BY = {
    "value": {"sql", "estimate"},
    "column": {"init", "plan", "sql", "run --dry-run"},
    "owner": {"plan", "ledger show", "ledger history", "ledger init", "ledger export"},
    "title": {"ledger export"},
    "unit": {"plan"},
    "release.yaml": {"check"},
    "schema.yaml": {"init"},
    "source.parquet": {"init"},
    "ledger.sqlite": {"plan", "ledger init", "ledger show"},
    "output": {"run", "verify"},
    "": {"sql", "check", "init", "run"},
}
"""Commands that have to tell what is named by a name that ends so, or they would prove nothing."""


def name_of(words: Sequence[object]) -> str:
    """Return a command as `SHOWN_BY` calls it."""
    plain = [one_line(word) for word in words if isinstance(word, str)]
    return " ".join(
        plain[: 2 if {plain[0], plain[-1]} & {"ledger", "mechanisms", "--dry-run"} else 1]
    )


def test_every_command_escapes_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100000")
    names = Names(tmp_path)
    names.write()
    told: dict[str, str] = {}
    for words in names.commands():
        name = name_of(words)
        told[name] = told.get(name, "") + run_escaped(words)[1]
    for place, commands in SHOWN_BY.items():
        for name in commands:
            assert f"{one_line(HOSTILE)}{place}" in told[name], (name, place, told[name])
    # What is sketched is read back as it is.
    sketched = yaml.safe_load(Path(f"{names.table}.new").read_text(encoding="utf-8"))
    assert list(sketched["columns"]) == ["person", "city", "pay", names.column]
    assert sketched["source"] == names.source.name


def values(held: object) -> Iterator[object]:
    """Yield all texts of a JSON value, names included."""
    if isinstance(held, dict):
        held = [*held, *held.values()]
    if isinstance(held, list):
        for one in held:
            yield from values(one)
    else:
        yield held


def test_json_keeps_names(tmp_path: Path) -> None:
    names = Names(tmp_path)
    names.write()
    found: dict[str, str] = {}
    for words in names.commands():
        name = name_of(words)
        code, text = run_escaped([*words, "--json"])
        if "init" in words[:1] or name == "ledger export" or text.startswith("Usage"):
            continue
        told = json.loads(text)
        found[name] = found.get(name, "") + "\0".join(map(str, values(told)))
        assert ("findings" in told) >= (code == 2), told
    for name, place in (
        ("sql", names.city),
        ("sql", names.column),
        ("plan", names.column),
        ("plan", names.ledger.name),
        ("ledger show", names.owner),
        ("run", str(names.out)),
        ("estimate", names.city),
    ):
        assert place in found[name], (name, found[name])


def nested(where: str, value: object) -> Callable[[dict], None]:
    """Return a change of a document: a value at a path of keys."""

    def change(held: dict) -> None:
        *path, last = where.split("/")
        for key in path:
            held = held[key]
        held[last.replace("HOSTILE", HOSTILE)] = value

    return change


WRONG = {
    "release": ("title", "tables", "budget", "mechanism", "ledger", "queries", "output"),
    "release/budget": ("epsilon", "delta", "neighbours", "HOSTILE"),
    "release/queries/by_city": ("from", "where", "group_by", "columns", "derive", "having"),
    "release/queries/by_city/columns/pay": ("sum", "mean", "mechanism", "weight", "moe", "HOSTILE"),
    "release/queries/by_city/columns": ("HOSTILE",),
    "schema": ("table", "source", "owner", "privacy_unit", "columns", "size", "HOSTILE"),
    "schema/privacy_unit": ("id", "max_groups", "HOSTILE"),
    "schema/columns": ("HOSTILE", "city"),
    "schema/columns/pay": ("type", "lower", "step", "fill", "expression", "HOSTILE"),
    "schema/columns/city": ("values", "values_from", "others", "cut", "edges"),
}
PLACES = [f"{part}/{key}" for part, keys in WRONG.items() for key in keys]


def test_errors_about_wrong_files_are_escaped(tmp_path: Path) -> None:
    """What is wrong at any key of a file is told without what it holds; JSON has it as it is."""
    (tmp_path / "people.csv").write_text("person,city,pay\n1,Bern,5\n")
    told, chosen = 0, list(sampled(PLACES, 0.1))
    for place in chosen:
        for value in (HOSTILE, [HOSTILE], {HOSTILE: HOSTILE}):
            held = json.loads(json.dumps({"schema": SCHEMA, "release": RELEASE}))
            nested(place, value)(held)
            (tmp_path / "people.yaml").write_text(yaml.safe_dump(held["schema"]))
            (tmp_path / "release.yaml").write_text(yaml.safe_dump(held["release"]))
            _, text = run_escaped(["check", tmp_path / "release.yaml"])
            told += one_line("\x1b[2J") in text
        json.loads(run_escaped(["check", tmp_path / "release.yaml", "--json"])[1])
    assert told > len(chosen) / 2


@pytest.mark.parametrize(
    "text", ["title: \x1b[2J", "a: [\u202e", "\x9b: x: y", "a: &\u200b x", "\ufeff{"]
)
def test_errors_about_invalid_yaml_are_escaped(text: str, tmp_path: Path) -> None:
    (tmp_path / "release.yaml").write_text(text, encoding="utf-8")
    assert run_escaped(["check", tmp_path / "release.yaml"])[0] == 2


def test_names_not_utf8_are_escaped(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9\x1b[2J")
    text = run_escaped(["verify", folder])[1]
    assert "caf\\udce9\\u001b[2J" in text
    told = json.loads(run_escaped(["verify", folder, "--json"])[1])["findings"][0]
    assert folder.name in told["cause"]


def test_python_errors_are_escaped() -> None:
    """A traceback prints the message; what programs ask for is as it was."""
    error = DataError("DP-DATA-002", place=Place(HOSTILE, 3, HOSTILE), table=HOSTILE, column="x")
    check_escaped(str(error))
    check_escaped(str(Findings([error, error])))
    check_escaped("".join(traceback.format_exception_only(error)))
    assert HOSTILE in error.cause
    assert error.to_json()["file"] == HOSTILE


def test_struct_names_add_no_lines_to_a_sketch(tmp_path: Path) -> None:
    kind = pa.struct([(f"a{HOSTILE}\nowner: somebody", pa.int32())])
    for field in (kind, pa.list_(kind), pa.map_(pa.string(), kind)):
        table = pa.table({"id": [1], "c": pa.array([None], field)})
        pq.write_table(table, tmp_path / "people.parquet")
        text = sketch(tmp_path / "people.parquet")
        check_escaped(text)
        assert set(yaml.safe_load(text)) == {"table", "source", "columns"}
        assert "  # c: left out, " in text


def test_names_in_charts_are_escaped(tmp_path: Path) -> None:
    """Names are drawn as they are written, whatever they look like, and escaped where hidden."""
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.add_subplot()
    axes.plot([1, 1000], [1, 1000], label=f"$\\frac{{$ {HOSTILE}")
    axes.set(xscale="log", yscale="log", title="$x$", xlabel=HOSTILE)
    axes.legend(title="\x9b")
    save_chart(figure, tmp_path / "chart.svg")
    texts = [axes.get_title(), axes.get_xlabel(), *(t.get_text() for t in axes.get_legend().texts)]
    assert texts == ["$x$", printable(HOSTILE), f"$\\frac{{$ {printable(HOSTILE)}"]
    for text in texts:
        check_escaped(text.replace("\nFORGED", ""))
    drawn = (tmp_path / "chart.svg").read_text(encoding="utf-8")
    assert "\u202e" not in drawn
    assert "10^{1}" in drawn or "10^1" in drawn  # ticks are formulas still
