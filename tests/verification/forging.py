"""Releases of every kind to forge, and every way to change one place of a manifest."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from dprelease.documents.encoding import NAME, canonical
from dprelease.ledger.ledger import Ledger
from dprelease.ledger.periods import Renewal
from dprelease.planning.guarantees import Guarantee
from dprelease.privacy.guarantee import Event
from dprelease.release.accounts import account_of
from dprelease.release.run_options import with_party
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.verification.second_opinion import Opinion, second_opinion
from tests.manifest_files import with_digest
from tests.replay import Keyed

Spot = tuple[str | int, ...]

SCHEMA = """\
table: people
owner: office
source: people.csv
privacy_unit: {id: person, max_groups: 2, max_rows_per_group: 2}
columns:
  person: {type: integer}
  city: {type: category, values: [Bern, Oslo, Rome], fill: Bern, others: Rome}
  age: {type: integer, lower: 0, upper: 115, fill: 0}
  pay: {type: number, lower: 0, upper: 5000, step: 0.5, fill: 0}
"""
CENTRAL = """\
title: People by city
about: {languages: [en, fr], publisher: Office, notes: [{en: Rounded., fr: Arrondi.}]}
tables: [people.yaml]
budget: {epsilon: 2, delta: 1e-6, neighbours: add_remove}
mechanism: discrete_laplace
queries:
  by_city:
    from: people
    label: {en: People by city, fr: Personnes par ville}
    footnotes: [Adults.]
    where: age >= 18
    group_by: [city]
    columns:
      people: {count_distinct: person, margin: true, mechanism: auto, label: People, decimals: 0}
      pay: {sum: pay, mechanism: auto, round_to: 10}
      mid: {median: age}
      rows: {count: "*", moe: 400, mechanism: discrete_gaussian}
  ages:
    from: people
    group_by: [age]
    private_keys: true
    columns:
      pay: {mean: pay, mechanism: {name: generalized_gaussian, p: 1.5}}
output: out
"""
PAID = """\
title: People under a ledger in ${year}
variables: {year: integer, name: text}
tables: ["${name}.yaml"]
budget: {epsilon: 1}
queries:
  by_city:
    from: people
    group_by: [city]
    columns:
      rows: {count: "*", mechanism: discrete_laplace}
ledger: ledger.sqlite
output: out
"""
LOCAL = """\
title: People one by one
tables: [people.yaml]
mode: local
budget: {epsilon: 6, neighbours: replace}
records:
  people:
    from: people
    columns:
      city: {}
      age: {mechanism: randomized_response}
      pay: {mechanism: {name: symmetric_alpha_stable, alpha: 1.7}}
output: out
"""
PARTIES = """\
title: People of all registers
tables: [people.yaml]
federated: {parties: 3, honest: 2}
budget: {epsilon: 1}
queries:
  by_city:
    from: people
    group_by: [city]
    columns:
      rows: {count: "*"}
      pay: {sum: pay, mechanism: {name: symmetric_alpha_stable, alpha: 1.8}}
output: out
"""
RELEASES = {"central": CENTRAL, "paid": PAID, "local": LOCAL, "party": PARTIES}


OPINIONS: dict[str, Opinion] = {}


def opinion(events: Sequence[Event], claimed: Guarantee) -> Opinion:
    """Return the second price of a release, taken once for the same noise and the same claim.

    Most forgeries leave both as they are, and the masses of stable noise take seconds.
    """
    key = f"{events!r} {claimed!r}"
    if key not in OPINIONS:
        OPINIONS[key] = second_opinion(events, claimed)
    return OPINIONS[key]


def publish(folder: Path, kind: str, party: int = 1, key: str = "forged") -> Path:
    """Return the folder of a release of one kind, beside its ledger if it has one."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        f"{i % 400},{('Bern', 'Oslo', 'Rome', '?')[i % 4]},{(20, 30)[i % 2]},{i * 13 % 4000}.25\n"
        for i in range(1200)
    ]
    if kind == "local":
        rows = rows[:60]
    (folder / "people.csv").write_text("person,city,age,pay\n" + "".join(rows))
    # Single records are units of their own.
    schema = SCHEMA if kind != "local" else SCHEMA.replace("privacy_unit", "# privacy_unit")
    (folder / "people.yaml").write_text(schema)
    (folder / "release.yaml").write_text(RELEASES[kind])
    if kind == "paid" and not (folder / "ledger.sqlite").exists():
        every = Renewal("year", date(2020, 2, 3))
        account = account_of("office/people", "person", "add_remove", "100", "0", None, every)
        Ledger(folder / "ledger.sqlite").open_account(account)
    values = {"year": "2026", "name": "people"} if kind == "paid" else {}
    declaration = read_declaration(folder / "release.yaml", values)
    if kind == "party":
        declaration = with_party(declaration, party)
    return run(declaration, bits=Keyed(f"{key} {kind} {party}"), overwrite=True)


def read(folder: Path) -> dict[str, Any]:
    """Return the manifest of a folder."""
    record = json.loads((folder / NAME).read_text())
    assert isinstance(record, dict)
    return record


def seal(folder: Path, record: dict[str, Any]) -> None:
    """Write a manifest with its own digest, as somebody would who knows how."""
    (folder / NAME).write_bytes(canonical(with_digest(record)))


def places(value: object, spot: Spot = ()) -> Iterator[Spot]:
    """Yield the way to every value, parts that hold others included."""
    if spot:
        yield spot
    if isinstance(value, dict):
        for name in sorted(value):
            yield from places(value[name], (*spot, name))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from places(inner, (*spot, i))


def at(record: Any, spot: Spot) -> Any:
    """Return the value at a place."""
    for part in spot:
        record = record[part]
    return record


def changed(record: dict[str, Any], spot: Spot, change: Callable[[Any, str | int], None]) -> Any:
    """Return a copy in which something was done to the part that holds a place."""
    found = copy.deepcopy(record)
    change(at(found, spot[:-1]), spot[-1])
    return found


def words(spot: Spot) -> str:
    """Return a place as one text."""
    return ".".join(map(str, spot))
