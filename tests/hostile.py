"""Commands over files that somebody made to hold them up: each in a process of its own, measured.

`python -m tests.hostile FOLDER GROUP [whole]` prints one line of JSON for each case of a group. The process
loads everything once and forks for each case, so that a case takes what it takes beyond that.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from dprelease.ledger.entries import entry_digest

Change = Callable[[Path], object]

SCHEMA = """\
table: people
owner: office
source: people.csv
privacy_unit: {id: person, max_groups: 2, max_rows_per_group: 2}
columns:
  person: {type: integer}
  city: {type: category, values_from: cities.csv}
  age: {type: number, lower: 0, upper: 115, step: 1, fill: 0}
"""
RELEASE = """\
title: People
tables: [people.yaml]
budget: {epsilon: 1}
mechanism: discrete_laplace
queries:
  by_city:
    from: people
    group_by: [city]
    columns:
      rows: {count: "*"}
      pay: {sum: age}
output: out
"""
FILES = {
    "people.yaml": SCHEMA,
    "release.yaml": RELEASE,
    "cities.csv": "city\nBern\nOslo\n",
    "people.csv": "person,city,age\n1,Bern,3\n2,Oslo,4\n",
}
PAID = RELEASE + "ledger: ledger.sqlite\n"
BUDGET = ["--table", "people", "--owner", "office", "--unit", "person", "--epsilon", "5"]


@dataclass(frozen=True)
class Case:
    """A command over a folder that was changed, and the codes of which it tells one."""

    name: str
    change: Change
    words: list[str]
    codes: tuple[str, ...]
    """None of them: it is no refusal."""


def call(*words: str) -> tuple[int, str]:
    """Return the exit code of a command and all that it prints."""
    from typer.testing import CliRunner

    from dprelease import cli

    done = CliRunner().invoke(cli.app, list(words))
    return done.exit_code, done.stdout[-4000:] + done.stderr[:2000] + done.stderr[-4000:]


def in_a_child(work: Callable[[], object], seconds: float) -> dict[str, Any]:
    """Return what work gives in a fork of this process, its time and its memory."""
    read, write = os.pipe()
    began, pid = time.monotonic(), os.fork()
    if pid == 0:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, seconds)
            resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
            os.write(write, json.dumps(work()).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    with open(read, "rb") as pipe:
        told = pipe.read()
    _, status, used = os.wait4(pid, 0)
    return {
        "answer": json.loads(told) if told else None,
        "status": status,
        "cpu": used.ru_utime + used.ru_stime,
        "elapsed": time.monotonic() - began,
        "mebibytes": used.ru_maxrss / 1024,
    }


def put(name: str, content: bytes | str) -> Change:
    """Return the change that writes a file."""
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return lambda folder: (folder / name).write_bytes(raw)


def edit(name: str, *pairs: tuple[str, str]) -> Change:
    """Return the change that replaces texts in a file, each of which is there."""

    def work(folder: Path) -> None:
        text = FILES[name]
        for old, new in pairs:
            assert old in text, old
            text = text.replace(old, new)
        (folder / name).write_text(text)

    return work


def both(*changes: Change) -> Change:
    """Return several changes as one."""
    return lambda folder: [change(folder) for change in changes] and None


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 << 30)


def _socket(path: Path) -> None:
    held = socket.socket(socket.AF_UNIX)
    os.chdir(path.parent)  # names of sockets are short
    held.bind(path.name)


THINGS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "a folder": Path.mkdir,
    "an endless device": lambda path: path.symlink_to("/dev/zero"),
    "standard input": lambda path: path.symlink_to("/dev/stdin"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "ten gigabytes": _sparse,
    "zeros": lambda path: path.write_bytes(bytes(1000)),
    "not UTF-8": lambda path: path.write_bytes(b"a\xff: \xfe\n1\n"),
    "UTF-16": lambda path: path.write_bytes("a: b\n".encode("utf-16")),
    "nested": lambda path: path.write_bytes(b"[" * 200_000 + b"]" * 200_000),
    "nested keys": lambda path: path.write_bytes(b'{"a":' * 100_000),
    "digits": lambda path: path.write_bytes(b'{"epsilon": ' + b"9" * 10_000 + b"}"),
    "laughs": lambda path: path.write_text(
        "a: &a [x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    ),
}  # fmt: skip


def thing(name: str, make: Callable[[Path], object]) -> Change:
    """Return the change that puts something in the place of a file, or where none is."""

    def work(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        make(path)

    return work


def budget(folder: Path) -> None:
    """Make a ledger with a budget, and let the release be charged to it."""
    code, told = call("ledger", "init", str(folder / "ledger.sqlite"), *BUDGET)
    assert code == 0, told
    (folder / "release.yaml").write_text(PAID)


CHECK, RUN, PLAN = (["check", "release.yaml"], ["run", "release.yaml"], ["plan", "release.yaml"])
SQL = ["sql", "SELECT COUNT(*) AS n FROM people", "--schema", "people.yaml", "--epsilon", "1"]
KINDS: dict[str, tuple[str, Change, list[list[str]], str]] = {
    "a release file": ("release.yaml", bool, [CHECK], "DP-YAML|DP-DECL"),
    "a table schema": ("people.yaml", bool, [CHECK, SQL], "DP-YAML|DP-DECL"),
    "a list of values": ("cities.csv", bool, [CHECK], "DP-SCHEMA-00"),
    "a source": ("people.csv", bool, [RUN], "DP-DATA"),
    "a file to sketch": ("new.csv", bool, [["init", "new.csv"]], "DP-DATA"),
    "a manifest": (
        "v/manifest.json", bool,
        [["verify", "v"], ["estimate", "v", "age"], [*RUN, "--output", "v", "--overwrite"]],
        "DP-VERIFY|DP-OUTPUT",
    ),
    "a manifest beside a ledger": (
        "v/manifest.json", budget, [[*RUN, "--output", "v", "--overwrite"]], "DP-OUTPUT|DP-LEDGER",
    ),
    "a ledger": (
        "ledger.sqlite", put("release.yaml", PAID),
        [RUN, ["ledger", "show", "ledger.sqlite"], ["ledger", "init", "ledger.sqlite", *BUDGET]],
        "DP-LEDGER",
    ),
    "an output": ("out", bool, [RUN, [*RUN, "--overwrite"]], "DP-OUTPUT"),
    "a new schema": ("new.yaml", bool, [["init", "people.csv", "--output", "new.yaml"]], "DP-OUTPUT"),
    "a release": ("v", bool, [["verify", "v"], ["estimate", "v", "age"]],
                  "DP-OUTPUT|DP-VERIFY|DP-AUDIT-009"),
}  # fmt: skip
WORKS = {
    ("a file to sketch", name)
    for name in ("not UTF-8", "UTF-16", "zeros", "digits", "nested keys", "laughs", "nested")
}
"""What `init` proposes a schema for, or does not: both are answers."""


def matrix(whole: bool) -> Iterator[Case]:
    """Yield every kind of file with every thing in its place; for every command, or for one."""
    for kind, (name, before, commands, codes) in KINDS.items():
        for i, (what, make) in enumerate(THINGS.items()):
            for words in commands if whole else [commands[i % len(commands)]]:
                label = f"{kind}: {what}: {' '.join(words[:2])}"
                told = () if (kind, what) in WORKS else tuple(codes.split("|"))
                yield Case(label, both(before, thing(name, make)), words, told)
    for ending in ("-journal", "-wal"):
        yield Case(
            f"a pipe for a {ending}",
            both(budget, thing(f"ledger.sqlite{ending}", os.mkfifo)), RUN, ("DP-LEDGER-025",),
        )  # fmt: skip
        yield Case(
            f"a pipe for a {ending} beside what a ledger's name leads to",
            both(budget, linked, thing(f"kept.sqlite{ending}", os.mkfifo)), RUN,
            ("DP-LEDGER-025",),
        )  # fmt: skip


def linked(folder: Path) -> None:
    """Keep the ledger under another name, to which its own leads."""
    (folder / "ledger.sqlite").rename(folder / "kept.sqlite")
    (folder / "ledger.sqlite").symlink_to("kept.sqlite")


def keys(n: int, indent: str = "") -> str:
    """Return keys that nothing has."""
    return "".join(f"{indent}k{i}: 1\n" for i in range(n))


NUMBERS = ("1e400", "1e-400", "1e101", "9" * 10_000, "9" * 400 + "e999", "1e9999", ".inf")
PLACES = {
    "weight": ("release.yaml", 'count: "*"', 'count: "*", weight: {}'),
    "epsilon of a column": ("release.yaml", 'count: "*"', 'count: "*", epsilon: {}'),
    "moe": ("release.yaml", 'count: "*"', 'count: "*", moe: {}'),
    "relative_moe": ("release.yaml", 'count: "*"', 'count: "*", relative_moe: "{} % at 10"'),
    "suppress_above": ("release.yaml", 'count: "*"', 'count: "*", suppress_above: {} %'),
    "round_to": ("release.yaml", 'count: "*"', 'count: "*", round_to: {}'),
    "share": ("release.yaml", "from: people", "from: people\n    share: {}"),
    "epsilon": ("release.yaml", "epsilon: 1", "epsilon: {}"),
    "delta": ("release.yaml", "epsilon: 1", "epsilon: 1, delta: {}"),
    "rho": ("release.yaml", "epsilon: 1", "rho: {}, delta: 1e-9"),
    "upper": ("people.yaml", "upper: 115", "upper: {}"),
    "step": ("people.yaml", "step: 1", "step: {}"),
    "max_groups": ("people.yaml", "max_groups: 2", "max_groups: {}"),
}


def numbers(whole: bool) -> Iterator[Case]:
    """Yield every number of a declaration as one that no float holds."""
    for i, (what, (name, old, new)) in enumerate(PLACES.items()):
        for number in NUMBERS if whole else [NUMBERS[i % 7]]:
            change = edit(name, (old, new.format(number)))
            codes = ("DP-DECL", "DP-BUDGET", "DP-SCHEMA", "DP-RELEASE", "DP-QUERY", "DP-MECH")
            yield Case(f"{what}: {number[:12]}", change, PLAN, codes)


LABELS = {
    "plain": "A city",
    "overridden": "A \u202ecity",
    "a script": "<script>\x07",
    "long": "x" * 201,
}


def declarations(whole: bool) -> Iterator[Case]:
    """Yield documents that are many, long or odd."""
    many, two = keys(60_000), ("DP-DECL-001", "DP-DECL-007")
    inner = "{" + ", ".join(f"k{i}: 1" for i in range(60_000)) + ", "
    yield Case("unknown keys", put("release.yaml", RELEASE + many), CHECK, two)
    yield Case("unknown keys in it", edit("release.yaml", ("{count", inner + "count")), CHECK, two)
    yield Case("unknown keys of a table", put("people.yaml", SCHEMA + many), CHECK, two)
    yield Case("unknown keys, long", put("people.yaml", SCHEMA + "".join(
        f"{'columns' * 20}{i}: 1\n" for i in range(5000)
    )), CHECK, two)  # fmt: skip
    yield Case(
        "a long key",
        put("people.yaml", SCHEMA + "? " + "k" * 10_000 + "\n: 1\n"),
        CHECK,
        ("DP-YAML-009",),
    )
    flat = "table: people\ncolumns:\n"
    yield Case(
        "columns",
        put("people.yaml", flat + keys(100_000, " ")),
        CHECK,
        ("DP-YAML-006", "DP-YAML-002"),
    )
    wide = "".join(f" c{i}: {{type: text}}\n" for i in range(20_000))
    yield Case("columns beyond", put("people.yaml", flat + wide), CHECK, ("DP-SCHEMA-015",))
    chain = " age: {type: integer}\n c0: {type: integer, expression: age}\n" + "".join(
        f" c{i}: {{type: integer, expression: c{i - 1}}}\n" for i in range(1, 5000)
    )
    chained = edit("release.yaml", ("group_by: [city]", ""), ("sum: age", "sum: c4999"))
    yield Case(
        "a chain", both(put("people.yaml", flat + chain), chained), CHECK, ("DP-DERIVE-003",)
    )
    circle = chain.replace("expression: age}", "expression: c4999}")
    yield Case(
        "a circle", both(put("people.yaml", flat + circle), chained), CHECK, ("DP-DERIVE-002",)
    )
    for name, path in {"NUL": "a\\0b", "long": "x" * 900, "a device": "/dev/zero"}.items():
        change = edit("release.yaml", ("[people.yaml]", f'["{path}"]'))
        yield Case(f"a table of the name: {name}", change, CHECK, ("DP-YAML-001", "DP-DECL-003"))
        values = edit("people.yaml", ("cities.csv", f'"{path}"'))
        yield Case(f"values of the name: {name}", values, CHECK, ("DP-SCHEMA-004", "DP-DECL-003"))
        source = edit("people.yaml", ("people.csv", f'"{path}.csv"'))
        yield Case(f"a source of the name: {name}", source, RUN, ("DP-DATA-001", "DP-DECL-003"))
    for length in (300, 900, 10_000):
        change = edit("release.yaml", ("output: out", f"output: {'o' * length}"))
        yield Case(f"an output of {length}", change, RUN, ("DP-OUTPUT-002", "DP-DECL-003"))
        yield Case(
            f"--output of {length}", bool, [*RUN, "--output", "o" * length], ("DP-OUTPUT-002",)
        )
        change = edit("release.yaml", ("rows:", f"{'r' * length}:"))
        yield Case(f"a column of {length}", change, CHECK, ("DP-DECL-005", "DP-YAML-003"))
    for n in (300_000, 1_500_000):  # the second one is read as a large file
        listed = "city\n" + "".join(f"{i}\n" for i in range(n))
        yield Case(f"{n} values", put("cities.csv", listed), CHECK, ())
    labelled = edit("people.yaml", ("cities.csv", "{file: cities.csv, column: city, labels: name}"))
    for what, label in LABELS.items():
        n = 300_000 if len(label) < 100 else 1000
        listed = "city,name\n" + "".join(f"{i},{label}\n" for i in range(n))
        codes = () if what == "plain" else ("DP-LABEL-001",)
        yield Case(f"labels: {what}", both(labelled, put("cities.csv", listed)), CHECK, codes)
    said = edit("release.yaml", ("title:", f"about: {{languages: [{'a, ' * 10_000}a]}}\ntitle:"))
    yield Case("languages", said, CHECK, ("DP-LABEL-004", "DP-DECL-003", "DP-DECL-007"))


def sources(whole: bool) -> Iterator[Case]:
    """Yield sources whose names of columns are many, long or no text."""
    header = ",".join(f"c{i}" for i in range(100_000))
    yield Case("a wide source", put("people.csv", header + "\n1\n"), RUN, ("DP-DATA-022",))
    yield Case("a wide sketch", put("new.csv", header + "\n1\n"), ["init", "new.csv"], ())
    yield Case("a long header", put("people.csv", "c" * 3_000_000 + "\n1\n"), RUN, ("DP-DATA",))
    yield Case("half a quote", put("people.csv", '"person,city,age\n1,Bern,3\n'), RUN, ("DP-DATA",))
    parquet = edit("people.yaml", ("people.csv", "people.parquet"))
    for name, make in {"not UTF-8": _no_text, "long": _long, "many": _many}.items():
        change = both(parquet, lambda folder, make=make: make(folder / "people.parquet"))
        yield Case(f"columns of Parquet: {name}", change, RUN, ("DP-DATA",))
        yield Case(f"a sketch of Parquet: {name}", change, ["init", "people.parquet"], ())


def _named(path: Path, names: list[str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table([pa.array([1])] * len(names), names=names), path)


def _no_text(path: Path) -> None:
    _named(path, ["person", "city", "age", "notutf8x"])
    path.write_bytes(path.read_bytes().replace(b"notutf8x", b"not\xff\xfe8x"))


def _long(path: Path) -> None:
    _named(path, ["person", "city", "n" * 10_000])


def _many(path: Path) -> None:
    _named(path, [f"c{i}" for i in range(5000)])


EVENT = {
    "query": "q", "column": "c", "mechanism": "discrete_laplace", "parameters": {"scale": "3.0"},
    "sensitivity": {"slots": 1, "moves": [{"shift": 1, "cells": 1}]},
}  # fmt: skip
CHARGE = {"table": "office/people", "price": "0.1", "counted": "epsilon", "takes_all": False}
RESERVED = {
    "kind": "reserve", "id": "abc", "title": "t", "locked": True, "time": "2024",
    "process": {"host": "h", "pid": 1, "started": "x"}, "charges": [{**CHARGE, "events": [EVENT]}],
}  # fmt: skip
ACCOUNT = {
    "table": "office/b", "neighbours": "add_remove", "unit": "u", "epsilon": "1", "delta": "0",
    "rho": None,
}  # fmt: skip


def _event(**changed: object) -> str:
    return json.dumps({**RESERVED, "charges": [{**CHARGE, "events": [{**EVENT, **changed}]}]})


def _opens(**changed: object) -> str:
    return json.dumps({"kind": "open", "time": "x", "account": {**ACCOUNT, **changed}})


ENTRIES: dict[str, str | bytes] = {
    "not UTF-8": b'{"kind": "\xff"}',
    "nested": "[" * 100_000 + "]" * 100_000,
    "digits": '{"kind":"open","id":' + "9" * 10_000 + "}",
    "many": '{"kind":"open","x":[' + "[]," * 5_000_000 + "1]}",
    "large": '{"kind":"' + "x" * 40_000_000 + '"}',
    "a list": "[]",
    "a number that is none": '{"kind": NaN}',
    "no moves": _event(sensitivity={"slots": 1, "moves": []}),
    "no cells": _event(sensitivity={"slots": 1, "moves": [{"shift": 1, "cells": None}]}),
    "a shift of 4,000 digits": _event(sensitivity={"slots": 1, "moves": [{"shift": 10**4000, "cells": 1}]}),
    "slots of 4,000 digits": _event(sensitivity={"slots": 10**4000, "moves": []}),
    "a scale of nothing": _event(parameters={}),
    "a scale beyond": _event(parameters={"scale": "1e400"}),
    "no events": json.dumps({**RESERVED, "charges": [{**CHARGE, "events": None}]}),
    "a host that is a list": json.dumps({**RESERVED, "process": {"host": [], "pid": 1, "started": "x"}}),
    "a process beyond": json.dumps({**RESERVED, "process": {"host": "h", "pid": 10**30, "started": "x"}}),
    "a time that is a list": json.dumps({**RESERVED, "time": [1]}),
    "a long name": json.dumps({**RESERVED, "id": "a" * 10_000}),
    "a budget beyond": _opens(epsilon="1e400"),
    "a budget of less than nothing": _opens(delta="-1"),
    "no budget": _opens(epsilon=None),
}  # fmt: skip


def _entry(text: str | bytes) -> Change:
    """Return the change that adds an entry with right digests to a ledger."""

    def work(folder: Path) -> None:
        budget(folder)
        told = text if isinstance(text, str) else text.decode("latin-1")
        with sqlite3.connect(folder / "ledger.sqlite") as link:
            number, before = link.execute("SELECT number, digest FROM head").fetchone()
            digest = entry_digest(number + 1, told, before)
            link.execute(
                "INSERT INTO entries VALUES (?, CAST(? AS TEXT), ?, ?)",
                (number + 1, text, before, digest),
            )
            link.execute("UPDATE head SET number = ?, digest = ?", (number + 1, digest))
        link.close()

    return work


def _statements(*statements: str) -> Change:
    def work(folder: Path) -> None:
        budget(folder)
        link = sqlite3.connect(folder / "ledger.sqlite", isolation_level=None)
        for statement in statements:
            link.execute(statement)
        link.close()

    return work


ENDLESS = (
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)"
    " SELECT n AS number, '{}' AS body, '' AS previous, '' AS digest FROM r"
)
TABLES = {
    "an endless view": ("DROP TABLE entries", f"CREATE VIEW entries AS {ENDLESS}"),
    "a trigger": (f"CREATE TRIGGER x BEFORE INSERT ON entries BEGIN INSERT INTO head SELECT 1, number, body FROM ({ENDLESS}); END",),
    "a body that is computed": (
        "DROP TABLE entries",
        "CREATE TABLE entries (number, body GENERATED ALWAYS AS (printf('%.900000000c', 'x')), previous, digest)",
        "INSERT INTO entries (number, previous, digest) VALUES (1, '', '')",
    ),
    "no head": ("DELETE FROM head",),
    "a version below nothing": ("PRAGMA user_version = -5",),
}  # fmt: skip
LEDGER = [
    RUN, *(["ledger", word, "ledger.sqlite"] for word in ("show", "history", "check", "recover", "export")),
]  # fmt: skip
HARMLESS = {"no moves", "a scale of nothing", "a scale beyond", "a long name"}
"""What has the form of an entry: some commands show it."""


def ledgers(whole: bool) -> Iterator[Case]:
    """Yield ledgers whose digests are right, with entries and tables that are none."""
    for name, text in islice(ENTRIES.items(), 0, None, 1 if whole else 4):
        for words in LEDGER if whole else [LEDGER[3 * (len(name) % 2)]]:
            codes = () if name in HARMLESS else ("DP-LEDGER-002", "DP-LEDGER-005")
            yield Case(f"{name}: {' '.join(words[:2])}", _entry(text), words, codes)
    for name, statements in TABLES.items():
        for words in LEDGER[:3] if whole else LEDGER[:1]:
            codes = ("DP-LEDGER-002", "DP-LEDGER-003")
            yield Case(f"{name}: {' '.join(words[:2])}", _statements(*statements), words, codes)


def manifests(whole: bool) -> Iterator[Case]:
    """Yield manifests that are larger than they look."""
    documents = {
        "lists": b'{"a":[' + b"[]," * 5_000_000 + b"[]]}",
        "lists as they are written": b'{\n  "a": [\n'
        + b"    [],\n" * 3_000_000
        + b"    []\n  ]\n}\n",
        "as many as are read": b'{\n  "a": [\n' + b"    [],\n" * 500_000 + b"    []\n  ]\n}\n",
        "numbers": b'{"a":[' + b"1e5," * 3_000_000 + b"1]}",
        "digits": b'{"a":' + b"9" * 5000 + b"}",
        "a long text": b'{"a":"' + b"a" * 24_000_000 + "\U0001f600".encode() + b'"}',
        "quotes": b'{"a":"' + b'\\"' * 10_000_000 + b'"}',
        "texts": b"[" + b'"",' * 9_000_000 + b"1]",
        "a mark of the order of bytes": b"\xef\xbb\xbf{}\n",
    }
    for name, raw in documents.items():
        change = both(lambda folder: (folder / "v").mkdir(), put("v/manifest.json", raw))
        yield Case(f"{name}: verify", change, ["verify", "v"], ("DP-VERIFY-002",))
        words = [*RUN, "--output", "v", "--overwrite"]
        yield Case(f"{name}: overwrite", change, words, ("DP-OUTPUT-003",))


def _spread(cases: Callable[[bool], Iterator[Case]], step: int) -> Callable[[bool], Iterator[Case]]:
    """Return what yields each `step`-th case, or all cases of a whole group."""
    return lambda whole: islice(cases(whole), 0, None, 1 if whole else step)


GROUPS = {
    "matrix": matrix, "numbers": numbers, "declarations": declarations,
    "sources": _spread(sources, 2), "ledgers": ledgers,
    "manifests": _spread(manifests, 3),  # of the two commands in turn
}  # fmt: skip


def main(root: Path, group: str, whole: bool) -> None:
    """Print what came of each case of a group."""
    import dprelease.exact.duckdb
    import dprelease.ledger.ledger
    import dprelease.release.runs.pipeline
    import dprelease.scaffold.sketch
    import dprelease.verification.central
    import dprelease.verification.verify  # noqa: F401

    for i, case in enumerate(GROUPS[group](whole)):
        folder = root / str(i)
        folder.mkdir()
        for name, text in FILES.items():
            (folder / name).write_text(text)

        def made(case: Case = case, folder: Path = folder) -> bool:
            case.change(folder)
            return True

        def asked(case: Case = case, folder: Path = folder) -> tuple[int, str]:
            os.chdir(folder)
            return call(*case.words)

        assert in_a_child(made, 60)["answer"] is True, case.name
        print(
            json.dumps({"name": case.name, "codes": case.codes, **in_a_child(asked, 60)}),
            flush=True,
        )
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:] == ["whole"])
