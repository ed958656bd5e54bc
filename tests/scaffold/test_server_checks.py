"""What CHECK constraints leave: never less than the server does, whatever they say."""

from __future__ import annotations

import random
from datetime import date
from fractions import Fraction

import duckdb
import pyarrow as pa
import pytest

from dprelease.exact.postgres.server_form import Check, ServerTable
from dprelease.scaffold.server_sketch import NOTHING, Limits, column_proposal, limits_of, notes_text
from dprelease.schema.load import CONFIRM

ANY = Limits()
CASES: dict[str, tuple[str, str, Limits]] = {
    "between": ("integer", "((x >= 0) AND (x <= 120))", Limits(Fraction(0), Fraction(120))),
    "turned": ("integer", "((0 <= x) AND (120 > x))", Limits(Fraction(0), Fraction(119))),
    "open ends of whole numbers": (
        "integer", "((x > 0) AND ((x)::numeric < 2.5))", Limits(Fraction(1), Fraction(2))),
    "open ends of numbers": (
        "number", "((x > (0)::numeric) AND (x < 2.5))", Limits(Fraction(0), Fraction(5, 2))),
    "negative": ("integer", "((x >= '-5'::integer) AND (x <= (- 2)))",
                 Limits(Fraction(-5), Fraction(-2))),
    "one end": ("number", "(x >= (0)::double precision)", Limits(Fraction(0))),
    "several": ("integer", "((x >= 0) AND (x >= 3) AND (x <> 5) AND (x <= 9) AND (x <= 12))",
                Limits(Fraction(3), Fraction(9))),
    "either": ("integer", "(((x >= 2) AND (x <= 4)) OR ((x >= 7) AND (x < 9)))",
               Limits(Fraction(2), Fraction(8))),
    "either, open": ("integer", "((x >= 2) OR (x <= 4))", ANY),
    "either, unknown": ("integer", "((x = 2) OR (abs(x) = 4))", ANY),
    "missing or": ("integer", "((x IS NULL) OR ((x >= 0) AND (x <= 9)))",
                   Limits(Fraction(0), Fraction(9))),
    "missing": ("integer", "(x IS NULL)", NOTHING),
    "not missing": ("integer", "(x IS NOT NULL)", ANY),
    "negated": ("integer", "(NOT (x < 0))", ANY),
    "a function": ("integer", "(abs(x) <= 5)", ANY),
    "another column": ("integer", "((y >= 0) AND (y <= x) AND (x <= 7))",
                       Limits(None, Fraction(7))),
    "codes": ("integer", "(x = ANY (ARRAY[1, 2, 9]))", Limits(values=("1", "2", "9"))),
    "codes, and what none is": (
        "integer", "((x)::numeric = ANY (ARRAY[1.0, 2.5]))", Limits(values=("1",))),
    "numbers of a list": ("number", "(x = ANY (ARRAY[0.5, 2.0]))",
                          Limits(Fraction(1, 2), Fraction(2))),
    "a list": ("text", "(x = ANY (ARRAY['F'::text, 'M'::text]))", Limits(values=("F", "M"))),
    "a list of varchar": (
        "text",
        "((x)::text = ANY ((ARRAY['it''s'::character varying, 'M'::character varying])::text[]))",
        Limits(values=("it's", "M"))),
    "a list of char(n)": ("text", "(x = ANY (ARRAY['F '::bpchar, 'MM'::bpchar]))",
                          Limits(values=("F", "MM"))),
    "texts by or": ("text", "((x = 'F'::text) OR (x = 'M'::text) OR (x IS NULL))",
                    Limits(values=("F", "M"))),
    "lists together": ("text", "((x = ANY (ARRAY['a'::text, 'b'::text, 'c'::text])) AND "
                       "(x = ANY (ARRAY['c'::text, 'b'::text])))", Limits(values=("b", "c"))),
    "not of a list": ("text", "(x <> ALL (ARRAY['F'::text]))", ANY),
    "cut first": ("text", "((x)::character varying(1) = 'F'::text)", ANY),
    "another's equality": ("text", "(x = ANY (ARRAY['F'::citext]))", ANY),
    "order of texts": ("text", "((x >= 'a'::text) AND (x <= 'b'::text))", ANY),
    "a pattern": ("text", "(x ~ '^[A-Z]$'::text)", ANY),
    "days": ("date", "((x >= '1900-01-01'::date) AND (x < '2025-01-01'::date))",
             Limits(date(1900, 1, 1), date(2025, 1, 1))),
    "until today": ("date", "(x <= CURRENT_DATE)", ANY),
    "no day": ("date", "(x <= 'infinity'::date)", ANY),
    "instants": ("timestamp", "(x >= '1900-01-01 00:00:00'::timestamp)", ANY),
    "not to be read": ("integer", "((x >= 0", ANY),
    "too deep": ("integer", "(" * 5000 + "x >= 0" + ")" * 5000, ANY),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_values_allowed_by_a_constraint(case: str) -> None:
    kind, condition, expected = CASES[case]
    assert limits_of([Check("x", condition)], kind) == expected


def test_enumeration_labels_and_domains() -> None:
    condition = "(VALUE = ANY (ARRAY['m'::office.a_sex, 'f'::office.a_sex]))"
    check = Check("VALUE", condition)
    assert limits_of([check], "text", is_enum=True) == Limits(values=("m", "f"))
    assert limits_of([check], "text") == ANY


VALUES = {"integer": range(-6, 7), "number": (i / 4 for i in range(-24, 25)), "text": "abcdef"}
CONSTANTS = {"integer": (-3, 0, 2), "number": (-2.5, 0, 3), "text": "bcd"}


def condition_of(draw: random.Random, kind: str, depth: int) -> str:
    """Return a random condition on x, as the server may write it."""
    if depth and draw.random() < 0.7:
        parts = [condition_of(draw, kind, depth - 1) for _ in range(draw.choice((2, 2, 3)))]
        return "(" + draw.choice((" AND ", " OR ")).join(parts) + ")"
    constants = [f"'{c}'::text" if kind == "text" else f"({c})" for c in CONSTANTS[kind]]
    some = draw.sample(constants, 2)
    simple = [f"(x {sign} {some[0]})" for sign in (">=", "<", "=", "<>")]
    more = [f"({some[0]} > x)", "(x IS NULL)", f"(x = ANY (ARRAY[{', '.join(some)}]))",
            f"(NOT (x = {some[0]}))"]  # fmt: skip
    return draw.choice(simple + more)


@pytest.mark.parametrize("kind", VALUES)
def test_valid_values_are_never_excluded(kind: str) -> None:
    draw = random.Random(kind)
    given = pa.table({"x": pa.array([*VALUES[kind], None])})
    with duckdb.connect() as engine:
        engine.register("given", given)
        narrowed = 0
        for _ in range(150):
            condition = condition_of(draw, kind, 3)
            found = engine.sql(f"SELECT x FROM given WHERE {condition}").fetchall()
            limits = limits_of([Check("x", condition)], kind)
            narrowed += limits != ANY
            for (value,) in found:
                assert value is None or is_within(value, limits), condition
    assert narrowed > 30


def is_within(value: object, limits: Limits) -> bool:
    if limits.values is not None:
        return str(value) in limits.values
    assert not isinstance(value, str) or limits == ANY
    if isinstance(value, str):
        return True
    number = Fraction(value)  # type: ignore[call-overload]
    low, high = limits.lower, limits.upper
    return (low is None or low <= number) and (high is None or number <= high)


def form(kind: str, conditions: tuple[str, ...], **more: object) -> ServerTable:
    told: dict[str, object] = {"labels": {}, "digits": {}, "required": frozenset(), **more}
    checks = {"x": tuple(Check("x", condition) for condition in conditions)}
    return ServerTable(None, {"x": kind}, checks=checks, **told)  # type: ignore[arg-type]


PROPOSALS: dict[str, tuple[ServerTable, str, str]] = {
    "digits and a check": (
        form("number", ("(x >= (0)::numeric)",), digits={"x": (Fraction(1, 10), Fraction(999, 10))}),
        "{type: number, lower: 0, upper: 99.9, step: 0.1}", ""),
    "one end alone": (form("number", ("(x >= 0)",)), "", "its CHECK constraint leaves lower: 0"),
    "never missing": (form("integer", (), required=frozenset("x")), "", "NOT NULL"),
    "one end, never missing": (
        form("integer", ("(x <= 9)",), required=frozenset("x")), "",
        "its CHECK constraint leaves upper: 9; NOT NULL"),
    "some labels": (
        form("text", ("(x = ANY (ARRAY['b'::a, 'c'::a]))",), labels={"x": ("a", "b", "c")}),
        '{type: category, values: ["b", "c"]}', ""),
    "nothing between": (form("integer", ("((x > 3) AND (x < 2))",)), "", ""),
    "no value": (form("integer", ("(x IS NULL)",)), "", ""),
    "days": (form("date", ("(x >= '1900-01-01'::date)", "(x <= '2024-12-31'::date)")),
             "{type: date, lower: 1900-01-01, upper: 2024-12-31}", ""),
    "steps beyond what is counted": (
        form("number", ("((x >= 0) AND (x <= 5))",), digits={"x": (Fraction(1, 10**20), Fraction(9))}),
        "", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", PROPOSALS)
def test_proposals_are_marked(case: str) -> None:
    told, body, notes = PROPOSALS[case]
    proposed = column_proposal(told, "x")
    assert proposed.partition("  #")[0] == body
    assert (f"  {CONFIRM}" in proposed) == bool(body)
    assert notes_text(told, "x") == notes
