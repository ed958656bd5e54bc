"""Every aggregate, noise, unit and entry point, with a ledger and without one.

The tables come from the registries: a new aggregate, mechanism, way to choose or question joins by
itself, or fails here until it can be asked for.
"""

from __future__ import annotations

import json
from datetime import date
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import pytest

import dprelease
from dprelease.accessor.questions import FUNCTIONS, NAMES
from dprelease.errors import BudgetError, LedgerError, QueryError
from dprelease.ledger.account import Account
from dprelease.ledger.ledger import Ledger
from dprelease.ledger.periods import Renewal
from dprelease.mechanisms import registry
from dprelease.mechanisms.base import SymmetricMechanism
from dprelease.numerics.entropy import Entropy
from dprelease.privacy.priced_vector import PricedVector
from dprelease.privacy.renyi import has_rho
from dprelease.privacy.unit import Move, Sensitivity
from dprelease.query.resolve import resolve
from dprelease.release.accounts import check_recorded_costs
from dprelease.schema.aggregate_keywords import WORDS
from dprelease.schema.column_spec import CHOSEN, KINDS
from dprelease.schema.load import declaration_from_texts
from dprelease.schema.release_parts.limit_choice import LIMITS
from dprelease.schema.release_parts.query_parts import PrivateKeysSpec
from tests.covering import thinned

TABLE, EPSILON, DELTA = "office/people", "8", "0.001"
YEARLY = Renewal("year", date(2020, 2, 3))
UNITS: dict[str, dict[str, Any]] = {
    "row": {},
    "id": {"privacy_unit": {"id": "person", "max_groups": 2, "max_rows_per_group": 2}},
    "all rows": {"privacy_unit": {"id": "person", "max_rows": 3}},
    "looked up": {
        "privacy_unit": {
            "id": "person",
            "lookup": {"source": "cards.csv", "on": "card"},
            "max_groups": 2,
            "max_rows_per_group": 2,
        }
    },
}
COLUMNS = {
    "person": {"type": "integer"},
    "card": {"type": "integer"},
    "city": {"type": "category", "values": ["Bern", "Oslo"]},
    "job": {"type": "text"},
    "age": {"type": "integer", "lower": 0, "upper": 8},
    "pay": {"type": "number", "lower": 0, "upper": 8, "step": 1},
    "well": {"type": "boolean"},
    "born": {"type": "date", "lower": "1969-12-31", "upper": "1970-02-03"},
    "seen": {"type": "timestamp", "lower": "1969-12-31", "upper": "1970-01-02 12:00:00"},
}
FRAME = pd.DataFrame(
    {
        "person": [i // 2 for i in range(120)],
        "card": range(120),
        "city": ["Bern", "Oslo", "Bern"] * 40,
        "job": ["baker"] * 100 + ["poet"] * 20,
        "age": [i % 9 for i in range(120)],
        "pay": [i * 5 % 9 for i in range(120)],
        "well": [i % 3 == 0 for i in range(120)],
        "born": pd.Timestamp("1970-01-01") + pd.to_timedelta([i % 30 for i in range(120)], "D"),
        "seen": pd.Timestamp("1970-01-01") + pd.to_timedelta([i % 30 for i in range(120)], "h"),
    }
)
OWN_SPECS: dict[str, dict[str, Any]] = {
    "count": {"count": "*"},
    "count_distinct": {"count_distinct": "city"},
    "ratio": {"ratio": ["pay", "age"]},
    "share": {"share": "*"},
    "quantile_ratio": {"quantile_ratio": {"of": "pay", "over": "0.8", "under": "0.2"}},
    "covariance": {"covariance": ["pay", "age"]},
    "covariance_pop": {"covariance_pop": ["pay", "age"]},
    "correlation": {"correlation": ["pay", "well"]},
    "slope": {"slope": {"of": "pay", "on": "age", "controls": ["well"]}},
    "intercept": {"intercept": {"of": "pay", "on": "age"}},
    "weighted_sum": {"weighted_sum": {"of": "pay", "weight": "age"}},
    "weighted_mean": {"weighted_mean": {"of": "pay", "weight": "age"}},
    "design_error": {"design_error": {"weight": "age", "replicates": ["pay"], "scale": 1}},
    "quantile": {"quantile": {"of": "pay", "at": "0.25"}},
    "mode": {"mode": "city"},
    "top_k": {"top_k": "city", "k": 2},
}
"""Aggregates of anything but one column of numbers."""
SPECS = {kind: OWN_SPECS.get(kind, {kind: "pay"}) for kind in KINDS}
TREE = {f"q{i}": {"quantile": {"of": "age", "at": f"0.{i}"}} for i in range(1, 10)}
TREE_OF_DAYS = {
    name: {"quantile": {**spec["quantile"], "of": "born"}} for name, spec in TREE.items()
}
"""So many quantiles that a tree of counts answers them."""
OF_DAYS: dict[str, dict[str, Any]] = {
    "quantile": {"quantile": {"of": "born", "at": "0.25"}},
    **{kind: {kind: "born"} for kind in ("median", "min", "max")},
    **{f"{kind}_time": {kind: "seen"} for kind in ("median", "min", "max")},
}
SUMMARIES: dict[str, Any] = {
    "columns": {"n": {"count": "*"}, "wells": {"sum": "well"}},
    "histogram": {"column": "age", "edges": [0, 3, 6, 9]},
    "summaries": {
        "gini": {"gini": {"count": "n", "over": "age_band"}},
        "rate": {
            "standardised_rate": {
                "events": "wells", "population": "n", "over": "age_band",
                "standard": {"0-2": 3, "3-5": 2, "6-8": 1},
            }
        },
    },
}  # fmt: skip
"""Numbers of groups that are computed from noised counts."""

CLIPPED = {"sum": "pay", "max_sum": 5}

Amounts = tuple[Fraction | None, Fraction, Fraction | None]
"""The epsilon, the delta and the rho of a budget in a ledger."""

ONE = Sensitivity(2, (Move(1, 1),))
NOISES = ("auto", *registry.names())


def noise(name: str) -> dict[str, Any]:
    """Return a mechanism as a release file declares it, with a shape where there is no best one."""
    return {"name": name, **({} if name == "auto" else registry.get(name).example_shapes[0])}


def schema(unit: str) -> dict[str, Any]:
    return {"table": "people", "owner": "office", "columns": COLUMNS, **UNITS[unit]}


CARDS = "card,person\n" + "".join(f"{card},{card // 2}\n" for card in range(120))
"""The correspondence table of cards and persons, each of whom has two cards."""


def query(columns: dict[str, Any], by: str = "city", **more: Any) -> dict[str, Any]:
    return {"from": "people", "group_by": [by], "columns": columns, **more}


def noised_by(name: str) -> dict[str, Any]:
    """Return all aggregates; design errors need symmetric noise with a certified variance."""
    kind = registry.get("laplace" if name == "auto" else name)
    is_apt = kind.has_variance_bound() and issubclass(kind, SymmetricMechanism)
    kinds = [kind for kind in SPECS if is_apt or kind != "design_error"]
    return {f"c_{kind}": SPECS[kind] for kind in kinds}


def choices() -> dict[str, dict[str, Any]]:
    """Return every chosen aggregate by every way to choose that admits it."""
    found = {}
    for kind in SPECS:
        for name in registry.selection_names():
            spec = {**SPECS[kind], "mechanism": name}
            if kind in CHOSEN and admitted({"q": query({"c": spec})}):
                found[f"{kind}_{name}"] = spec
    return found


def canonical_json_text(queries: dict[str, Any], mechanism: Any = "auto", **more: Any) -> str:
    budget = {"epsilon": EPSILON, "delta": DELTA}
    release = {"title": "t", "tables": ["people.yaml"], "budget": budget, "output": "out"}
    asked = {"queries": queries, "mechanism": mechanism} if queries else {}
    return json.dumps({**release, **asked, **more})


def admitted(queries: dict[str, Any]) -> bool:
    """Return whether queries resolve; what does not is noise for a choice or the reverse."""
    texts = {"people.yaml": json.dumps(schema("row")), "r.yaml": canonical_json_text(queries)}
    try:
        resolve(declaration_from_texts(texts, "r.yaml"))
    except QueryError as error:
        if error.code != "DP-QUERY-011":
            raise
        return False
    return True


class World:
    """A folder with a table, and with a ledger whose budget is a little above one release.

    That of rows renews, those of ids last: each noise, word and way in is charged to both.
    """

    def __init__(
        self,
        folder: Path,
        unit: str,
        *,
        has_ledger: bool,
        neighbours: str = "add_remove",
        budget: Amounts = (Fraction(100), Fraction(DELTA), None),
        rho_delta: Fraction = Fraction(0),
    ) -> None:
        self.folder, self.unit = folder, unit
        (folder / "people.yaml").write_text(json.dumps(schema(unit)))
        (folder / "cards.csv").write_text(CARDS)
        self.path = folder / "ledger.sqlite" if has_ledger else None
        if self.path is not None:
            named = "each row" if unit == "row" else "person"
            renewal = YEARLY if unit == "row" else None
            account = Account(TABLE, neighbours, named, *budget, renewal, rho_delta=rho_delta)
            Ledger(self.path).open_account(account)

    @property
    def frames(self) -> dict[str, Any]:
        return {"people": FRAME.copy()}

    def run(self, queries: dict[str, Any], mechanism: Any = "auto", **more: Any) -> Path:
        """Publish a release, and verify it against the ledger that paid."""
        path = self.folder / "r.yaml"
        own = {} if self.path is None else {"ledger": self.path.name}
        path.write_text(canonical_json_text(queries, mechanism, **own, **more))
        published = dprelease.read_release(path).run(frames=self.frames)
        report = dprelease.verify(published, ledger=self.path)
        assert report.ok, report.findings
        return published

    def session(self, **budget: Any) -> tuple[pd.DataFrame, Any]:
        own = {} if self.path is None else {"ledger": self.path}
        session = dprelease.Session(self.folder / "people.yaml", **budget, **own)
        frame = FRAME.copy()
        frame.dp.use(session)
        return frame, session

    def run_local(self, records: dict[str, Any]) -> Path:
        """Publish single records, likewise."""
        changed = {**schema(self.unit), "columns": dict(COLUMNS)}
        changed["columns"]["city"] = {**COLUMNS["city"], "fill": "Bern", "others": "Bern"}
        changed["columns"]["age"] = {**COLUMNS["age"], "fill": 0}
        (self.folder / "people.yaml").write_text(json.dumps(changed))
        budget = {"epsilon": EPSILON, "delta": DELTA, "neighbours": "replace"}
        return self.run({}, mode="local", records=records, budget=budget)

    def charges(self, *, for_good: bool = False) -> int:
        """Return how many releases the ledger has paid for, or those that can't be given back."""
        if self.path is None:
            return 0
        held = Ledger(self.path).state().reservations.values()
        return sum(r.is_charged and (bool(r.steps) or not for_good) for r in held)

    def check_release(self, published: Path) -> set[str]:
        """Check the ledger, and return the mechanisms of a release."""
        record = json.loads((published / "manifest.json").read_text())
        self.check(len(record["measurements"]))
        return {held["mechanism"] for held in record["measurements"]}

    def check(self, events: int) -> None:
        """Assert that one release is charged, with so many events, for what these cost."""
        if self.path is None:
            return
        state = Ledger(self.path).state()
        (charge,) = state.all_charges(TABLE)
        period = charge.get("period")
        assert (period is None) == (self.unit != "row")
        assert len(charge["events"]) == events
        assert not any(r.is_open for r in state.reservations.values())
        assert charge["takes_all"] or 0 < state.spent(TABLE, period) < 100
        check_recorded_costs(self.path)


NOISED_UNITS = [
    (name, unit)
    for name, unit in product(NOISES, UNITS)
    if name == "auto"
    or unit in ("row", "id")
    or (unit == "all rows" and registry.get(name).costs_most_in_few_cells)
]
"""Noise with each unit for which its cost is known."""
CELLS = [
    pytest.param(
        name,
        unit,
        has_ledger,
        id=f"{name}-{unit}-{'ledger' if has_ledger else 'none'}",
        marks=[] if has_ledger and (unit == "id" or name == "auto") else pytest.mark.audit,
    )
    for (name, unit), has_ledger in product(NOISED_UNITS, (True, False))
]
"""Noise, unit, ledger. All of them are for `make audit`: other tests have the rest in parts."""
WORLDS = thinned(list(UNITS), (True, False), together=1)


@pytest.mark.share(0.1)
@pytest.mark.parametrize(("name", "unit", "has_ledger"), CELLS)
def test_releases_with_every_noise(tmp_path: Path, name: str, unit: str, has_ledger: bool) -> None:
    """All aggregates, noised by one mechanism; what is chosen is chosen beside it."""
    world = World(tmp_path, unit, has_ledger=has_ledger)
    columns = noised_by(name)
    columns |= {
        "share": {"mean": "well"},
        "wells": {"sum": "well"},
        "odds": {"ratio": ["well", "pay"]},
    }
    columns |= {f"day_{kind}": spec for kind, spec in OF_DAYS.items()}
    columns |= {} if unit == "row" else {"clipped": CLIPPED}
    published = world.run({"q": query(columns), "s": query(**SUMMARIES)}, noise(name))
    used = world.check_release(published)
    assert used >= set(registry.selection_names()) | ({name} - {"auto"})


@pytest.mark.share(0.1)
@pytest.mark.parametrize(("name", "unit"), NOISED_UNITS)
def test_releases_with_rho_budget(tmp_path: Path, name: str, unit: str) -> None:
    """All aggregates and private keys, under a budget in rho; noise without a rho is refused."""
    budget = (None, Fraction(0), Fraction(100))
    world = World(tmp_path, unit, has_ledger=True, budget=budget, rho_delta=Fraction(DELTA))
    columns = noised_by(name)
    columns |= {f"day_{kind}": spec for kind, spec in OF_DAYS.items()}
    columns |= {"share": {"mean": "well"}} | ({} if unit == "row" else {"clipped": CLIPPED})
    keys = query({"n": SPECS["count"]}, "job", private_keys=True)
    queries = {"q": query(columns), "s": query(**SUMMARIES), "keys": keys}
    design = noise(name)
    if name == "auto" or has_a_rho(name):
        used = world.check_release(world.run(queries, design, budget={"rho": 20, "delta": DELTA}))
        assert used >= {*registry.selection_names(), "gaussian_threshold"} | ({name} - {"auto"})
        return
    with pytest.raises(BudgetError, match="DP-BUDGET-010"):
        world.run(queries, design, budget={"rho": 20, "delta": DELTA})
    assert world.charges() == 0


def has_a_rho(name: str) -> bool:
    kind = registry.get(name)
    law = kind.design(2.0, ONE, **kind.example_shapes[0])
    return has_rho(PricedVector(law, law.losses, ONE))


@pytest.mark.share(0.1)
@pytest.mark.parametrize(("unit", "has_ledger"), WORLDS)
def test_releases_with_every_selection(tmp_path: Path, unit: str, has_ledger: bool) -> None:
    """Every way to choose for every aggregate that admits it; a tree; keys that are not public."""
    found = choices()
    assert {spec["mechanism"] for spec in found.values()} == set(registry.selection_names())
    assert {kind for kind in KINDS if any(name.startswith(kind) for name in found)} == CHOSEN
    queries = {"chosen": query(found), "days": query(OF_DAYS)}
    if unit != "row":
        cells = {"n": SPECS["count"], "pay": {"sum": "pay", "max_sum": 9}}
        family = {"from": "people", "marginals": [["city"], []], "columns": cells}
        queries["family"] = family | {"consistent": True}
    if unit == "row":  # rows of one unit could meet in one node
        queries["tree"] = query(TREE)
        queries["tree_of_days"] = query(TREE_OF_DAYS)
    finders = get_args(PrivateKeysSpec.model_fields["mechanism"].annotation)
    assert len(finders) >= 2
    for finder in finders:
        queries[finder] = query({"n": SPECS["count"], "m": SPECS["median"]}, "job")
        queries[finder]["private_keys"] = {"mechanism": finder}
        cube = {"from": "people", "cube": ["city", "job"], "columns": {"n": SPECS["count"]}}
        queries[f"cube_{finder}"] = {**cube, "private_keys": {"mechanism": finder}}
    world = World(tmp_path, unit, has_ledger=has_ledger)
    used = world.check_release(world.run(queries, "discrete_laplace"))
    assert used >= {*registry.selection_names(), *finders} - {"auto"}


@pytest.mark.share(0.25)
@pytest.mark.parametrize(
    "mechanism", ["discrete_laplace", pytest.param("auto", marks=pytest.mark.audit)]
)
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize(
    ("unit", "has_ledger"),
    thinned([one for one in UNITS if one != "row"], (True, False), together=1),
)
def test_releases_with_private_limits(
    tmp_path: Path, unit: str, limit: str, has_ledger: bool, mechanism: str
) -> None:
    """Every aggregate under a limit that is chosen privately; both releases are charged."""
    world = World(tmp_path, unit, has_ledger=has_ledger)
    chosen = {limit: {"choose": {"share": "10 %", "up_to": 2}}}
    queries = {"q": query({f"c_{kind}": spec for kind, spec in SPECS.items()}, **chosen)}
    family = {"from": "people", "marginals": [["city"], []], "columns": {"n": SPECS["count"]}}
    queries["family"] = {**family, "consistent": True, **chosen}
    published = world.run(queries, mechanism)
    record = json.loads((published / "manifest.json").read_text())
    assert {one["limit"] for one in record["limits"]["chosen"]} == {limit}
    for one in record["privacy_unit"]:
        assert one[limit] in (1, 2)
        assert one.get("max_rows") == UNITS[unit]["privacy_unit"].get("max_rows")
    if world.path is not None:
        first, second = Ledger(world.path).state().all_charges(TABLE)
        assert len(first["events"]) == len(record["limits"]["chosen"]) == 2
        assert len(second["events"]) == len(record["measurements"])
        check_recorded_costs(world.path)


@pytest.mark.share(0.3)
@pytest.mark.parametrize(
    ("name", "has_ledger"), thinned([*NOISES, *registry.RECORD_NAMES], (True, False), together=1)
)
def test_local_releases_with_every_noise(tmp_path: Path, name: str, has_ledger: bool) -> None:
    """Every noise of a number of a record, beside its category."""
    world = World(tmp_path, "row", has_ledger=has_ledger, neighbours="replace")
    shape = {"name": name} if name in registry.RECORD_NAMES else noise(name)
    columns = {"city": {}, "age": {"mechanism": shape}}
    used = world.check_release(world.run_local({"p": {"from": "people", "columns": columns}}))
    assert used >= {*registry.RECORD_NAMES} | ({name} - {"auto"})


IN_SQL = {
    "count": "COUNT(*)",
    "count_distinct": "COUNT(DISTINCT city)",
    "ratio": "SUM(pay) / SUM(age)",
    "weighted_count": "SUM(age)",
    "weighted_sum": "SUM(pay * age)",
    "weighted_mean": "WEIGHTED_AVG(pay, age)",
    "covariance": "COVAR_SAMP(pay, age)",
    "covariance_pop": "COVAR_POP(pay, age)",
    "correlation": "CORR(pay, well)",
    "slope": "REGR_SLOPE(pay, age)",
    "intercept": "REGR_INTERCEPT(pay, age)",
    "quantile": "QUANTILE_CONT(pay, 0.25)",
    "mode": "MODE(city)",
}
IN_SQL |= {
    kind: f"{word.sql[0]}(pay)" for kind, word in WORDS.items() if word.sql and kind not in IN_SQL
}
NO_SQL = {"share", "quantile_ratio", "effective_size", "design_error", "top_k"}


def statement(kinds: list[str]) -> str:
    columns = ", ".join(f"{IN_SQL[kind]} AS c_{kind}" for kind in kinds)
    return f"SELECT city, {columns} FROM people GROUP BY city"


@pytest.mark.share(0.2)
@pytest.mark.parametrize(("name", "unit", "has_ledger"), CELLS)
def test_sql_statements_with_every_noise(
    tmp_path: Path, name: str, unit: str, has_ledger: bool
) -> None:
    """As `test_releases_with_every_noise`, in SQL; without an output, for that is a release."""
    assert set(IN_SQL) | NO_SQL == set(KINDS)
    world = World(tmp_path, unit, has_ledger=has_ledger)
    found = dprelease.sql(
        statement(list(IN_SQL)),
        tmp_path / "people.yaml",
        epsilon=40,  # of which each of the many measurements has a small share
        delta=DELTA,
        mechanism=noise(name),
        ledger=world.path,
        frames=world.frames,
    )
    assert list(found.columns) == ["city", *(f"c_{kind}" for kind in IN_SQL)]
    used = found.attrs["dprelease"]["mechanisms"]
    assert set(used.values()) >= set(registry.selection_names()) | ({name} - {"auto"})
    world.check(len(used))


REWRITTEN = """
    SELECT age // 50 AS half, COUNT_IF(pay > 1) AS a, AVG(pay / 2) AS b, VAR_POP(pay) AS c,
        SUM(CASE WHEN age > 3 THEN pay ELSE 0 END) AS d, COUNT(DISTINCT city) FILTER (WHERE pay > 1) AS e,
        PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY pay) AS f, MODE(CASE WHEN age > 3 THEN 'x' ELSE 'y' END) AS g,
        MEDIAN(born) AS h, MIN(born) FILTER (WHERE age > 3) AS i, MAX(seen) AS j, MEDIAN(seen) AS k
    FROM (SELECT * FROM people WHERE age >= 0) AS p GROUP BY ALL
"""


@pytest.mark.share(0.15)
@pytest.mark.parametrize(("name", "unit", "has_ledger"), CELLS)
def test_rewritten_statements_with_every_noise(
    tmp_path: Path, name: str, unit: str, has_ledger: bool
) -> None:
    """As `test_statements`, with computed keys and arguments."""
    world = World(tmp_path, unit, has_ledger=has_ledger)
    found = dprelease.sql(
        REWRITTEN,
        tmp_path / "people.yaml",
        epsilon=EPSILON,
        delta=DELTA,
        mechanism=noise(name),
        ledger=world.path,
        frames=world.frames,
    )
    assert list(found.columns) == ["half", *"abcdefghijk"]
    world.check(len(found.attrs["dprelease"]["mechanisms"]))


@pytest.mark.share(0.15)
@pytest.mark.parametrize(("name", "unit", "has_ledger"), CELLS)
def test_sessions_with_every_noise(tmp_path: Path, name: str, unit: str, has_ledger: bool) -> None:
    """Every aggregate of a grouped frame that a mechanism answers."""
    world = World(tmp_path, unit, has_ledger=has_ledger)
    frame, _ = world.session(epsilon=EPSILON, delta=DELTA)
    answers = {
        f"c_{function}": ("city" if kind in ("count_distinct", "mode") else "pay", function)
        for function, kind in FUNCTIONS.items()
        if name == "auto" or kind not in CHOSEN
    }
    if name == "auto":
        answers |= {f"day_{kind}": ("born", kind) for kind in ("median", "min", "max")}
        answers |= {f"time_{kind}": ("seen", kind) for kind in ("median", "min", "max")}
    found = frame.dp.groupby("city").agg(
        None, epsilon=EPSILON, delta=DELTA, mechanism=noise(name), **answers
    )
    assert list(found.columns) == list(answers)
    used = found.attrs["dprelease_answer"]["mechanisms"]
    assert set(used.values()) >= ({name} if name != "auto" else set(registry.selection_names()))
    world.check(len(used))


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "agg": ({"pay": ["sum", "std"], "city": "nunique"},),
    "count_distinct": ("city",),
    "nunique": ("city",),
    "mode": ("city",),
    "value_counts": ("city",),
    "crosstab": ("city", "city2"),
    "histogram": ("age", [0, 4, 8]),
    "sql": (statement(["count", "median"]),),
    "describe": (["pay", "age"],),
    "cov": (["pay", "age"],),
    "corr": (["pay", "age"],),
    "regression": ("pay", ["age"]),
    "design_error": ("age", ["pay"], 1),
    "tables": ({"n": {"count": "*"}, "pay": {"sum": "pay"}},),
}
"""Arguments of questions that are about anything but one column of numbers."""


@pytest.mark.share(0.5)
@pytest.mark.parametrize(("unit", "has_ledger"), WORLDS)
def test_session_questions_are_charged_before_noise(
    tmp_path: Path, unit: str, has_ledger: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every question of a frame, and of groups: each is charged once, for good, before a word of noise is drawn."""
    world = World(tmp_path, unit, has_ledger=has_ledger)
    frame, session = world.session(epsilon=100, delta=DELTA)
    copied = frame.dp.derive(city2={"cut": "age", "edges": [0, 4, 9]})
    at_first_word: list[tuple[Fraction, int]] = []
    draw = Entropy.words

    def looked(self: Entropy, n: int) -> Any:
        if not at_first_word:
            at_first_word.append((session.spent.epsilon, world.charges(for_good=True)))
        return draw(self, n)

    monkeypatch.setattr(Entropy, "words", looked)
    groups = copied.groupby("city2")
    charged = [q for q in NAMES if q != "unique"]  # declared values cost nothing
    asked = [(asks, q) for asks in (copied, groups) for q in charged if hasattr(asks, q)]
    assert len(asked) == 2 * len(charged) - 5  # nor have regressions and design errors groups
    for number, (asks, question) in enumerate(asked, 1):
        at_first_word.clear()
        rows = question == "size" or (question == "count" and asks is copied)
        arguments = () if rows else ARGUMENTS.get(question) or ("pay",)
        found = getattr(asks, question)(*arguments, epsilon=1)
        assert len(found) > 0
        assert session.spent.epsilon == number
        assert world.charges() == (number if has_ledger else 0)
        assert at_first_word == [(session.spent.epsilon, world.charges())]


@pytest.mark.parametrize(("unit", "has_ledger"), WORLDS)
def test_session_questions_with_private_keys(tmp_path: Path, unit: str, has_ledger: bool) -> None:
    world = World(tmp_path, unit, has_ledger=has_ledger)
    frame, session = world.session(epsilon=100, delta="0.01")

    def ask() -> pd.DataFrame:
        found: pd.DataFrame = frame.dp.groupby("job").agg(
            n=("*", "count"), m=("pay", "median"), private_keys=True, epsilon=EPSILON, delta=DELTA
        )
        return found

    assert "baker" in ask().index
    world.check(3)
    if (
        has_ledger
    ):  # a selection has neither a pure epsilon nor a rho: only a first answer takes all
        with pytest.raises(LedgerError, match=r"DP-LEDGER-010.*private_keys"):
            ask()
        assert session.spent.epsilon == int(EPSILON)
        world.check(3)


@pytest.mark.parametrize("unit", UNITS)
def test_private_keys_are_charged_to_rho_delta(tmp_path: Path, unit: str) -> None:
    """With a part of delta for keys, a ledger accepts them in several releases and answers."""
    world = World(tmp_path, unit, has_ledger=True, rho_delta=Fraction(DELTA) / 2)
    frame, session = world.session(epsilon=100, delta="0.01")
    for number in (1, 2):
        found = frame.dp.groupby("job").agg(
            n=("*", "count"), private_keys=True, epsilon=2, delta=Fraction(DELTA) / 100
        )
        assert len(found) > 0
        assert session.spent.epsilon == 2 * number
        assert world.charges() == number
    keys = query({"n": {"count": "*"}}, "job", private_keys=True)
    world.run({"q": keys}, budget={"epsilon": 2, "delta": str(float(DELTA) / 100)})
    assert world.charges() == 3
    check_recorded_costs(tmp_path / "ledger.sqlite")
