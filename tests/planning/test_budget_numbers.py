"""All entry points accept and refuse the same numbers for a budget."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

import dprelease
from dprelease.cli import app
from dprelease.errors import DpReleaseError
from dprelease.numerics.rounding import exact_of
from dprelease.planning.prepare import prepare
from dprelease.release.accounts import account_of
from dprelease.release.question import declaration_of_statement
from dprelease.schema.amounts import ShareSpec
from dprelease.schema.column_spec import ColumnSpec
from dprelease.schema.load import declaration_from_texts
from dprelease.schema.release import BudgetSpec
from dprelease.schema.release_parts.local_and_federated import RecordColumnSpec
from dprelease.schema.release_parts.query_parts import PrivateKeysSpec

SCHEMA: dict[str, Any] = {
    "table": "people",
    "columns": {"pay": {"type": "number", "lower": 0, "upper": 8, "step": 1}},
}
HALF = [0.5, "0.5", "5e-1", Decimal("0.5"), Fraction(1, 2), np.float32(0.5), np.float64(0.5)]
ONE = [1, "1", 1.0, np.int64(1), np.uint8(1), Decimal("1e0"), np.float16(1)]
SMALL = ["1e-9", 1e-9, Decimal("1e-9"), Fraction(1, 10**9), np.float64(1e-9)]
NONE = [
    *(True, False, np.bool_(True), float("nan"), float("inf"), "nan", "inf", "-inf", "true"),
    *(np.float64("nan"), np.float32("inf"), Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity")),
    *("", "x", "0x1", "1_0", "1,5", "1/2", "50 %", b"1", [1], {"epsilon": 1}, 1j, object()),
    *(np.array([1.0]), np.array(1.0), pd.Series([1.0]), pd.NA, 10**5000, Fraction(10**5000)),
    *(-1, "-1", -0.5, Decimal(-1), Fraction(-1), np.int8(-1), "1e9999"),
]
"""What is no number, or none that any budget can have."""

Way = Callable[[Any], object]


def session(**budget: Any) -> Any:
    return dprelease.Session(SCHEMA, **{"epsilon": 10, **budget})


def question(given: dict[str, Any], **price: Any) -> object:
    frame = pd.DataFrame({"pay": [1.0, 2.0]})
    held = dprelease.Session(SCHEMA, **given)
    frame.dp.use(held)
    return frame.dp.explain("sum", "pay", **price)


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("numbers") / "people.yaml"
    path.write_text(json.dumps(SCHEMA))
    return path


def run_statement(path: Path, **budget: Any) -> object:
    terms: Any = {"epsilon": 1, "delta": 0, "neighbours": "add_remove", "mechanism": "auto"}
    statement = "SELECT SUM(pay) AS s FROM people"
    return prepare(declaration_of_statement(statement, path, **{**terms, **budget}, ledger=None)[0])


def run_release(budget: dict[str, Any]) -> object:
    text = "{" + ", ".join(f"{name}: {value}" for name, value in budget.items()) + "}"
    asked = json.dumps({"q": {"from": "people", "columns": {"s": {"sum": "pay"}}}})
    release = f"title: t\ntables: [people.yaml]\noutput: out\nbudget: {text}\nqueries: {asked}\n"
    texts = {"people.yaml": json.dumps(SCHEMA), "r.yaml": release}
    return prepare(declaration_from_texts(texts, "r.yaml"))


def ways(path: Path) -> dict[str, tuple[str, Way]]:
    """Return every way in: what number is given there, and how."""
    pure, many, rho = {"epsilon": 10}, {"epsilon": 10, "delta": "0.5"}, {"rho": 5, "delta": "1e-9"}
    models: dict[str, tuple[Any, tuple[str, ...]]] = {
        "budget": (BudgetSpec, ()),  # whose range is the plan's
        "share": (ShareSpec, ("weight", "epsilon", "rho")),
        "record": (RecordColumnSpec, ("weight", "epsilon", "rho")),
        "private keys": (PrivateKeysSpec, ("weight", "epsilon")),
    }
    column = {"sum": "pay"}
    return {
        "session": ("epsilon", lambda x: session(epsilon=x)),
        "session's delta": ("delta", lambda x: session(delta=x)),
        "session's rho": ("rho", lambda x: dprelease.Session(SCHEMA, rho=x)),
        "question": ("epsilon", lambda x: question(pure, epsilon=x)),
        "question's delta": ("delta", lambda x: question(many, epsilon=1, delta=x)),
        "question's rho": ("rho", lambda x: question(rho, rho=x)),
        "sql": ("epsilon", lambda x: run_statement(path, epsilon=x)),
        "sql's delta": ("delta", lambda x: run_statement(path, delta=x)),
        "calibrate": ("epsilon", lambda x: dprelease.calibrate("discrete_laplace", x)),
        "calibrate's delta": ("delta", lambda x: dprelease.calibrate("discrete_laplace", 1, x)),
        "account": ("epsilon", lambda x: account_of("t", None, "replace", x, "0", None)),
        "account's delta": ("delta", lambda x: account_of("t", None, "replace", 1, x, None)),
        "account's rho": ("rho", lambda x: account_of("t", None, "replace", None, "0", x)),
        **{
            f"{name}'s {number}": (number, lambda x, m=model, n=number: m.model_validate({n: x}))
            for name, (model, numbers) in models.items()
            for number in numbers
        },
        **{
            f"column's {number}": (
                number,
                lambda x, n=number: ColumnSpec.model_validate({**column, n: x}),
            )
            for number in ("weight", "epsilon", "rho", "moe")
        },
    }


WAYS = [*ways(Path())]


def is_refused(way: Way, value: object) -> bool:
    try:
        way(value)
    except (DpReleaseError, ValidationError):
        return True
    return False


@pytest.mark.parametrize("name", WAYS)
def test_entry_points_accept_the_same_numbers(name: str, schema: Path) -> None:
    number, way = ways(schema)[name]
    none = [*NONE, 1, 2, "1.0", 1.5] if number == "delta" else [*NONE, 0, "0", 0.0, "1e-9999"]
    assert [value for value in none if not is_refused(way, value)] == []
    good = [0, "0", *SMALL] if number == "delta" else [*HALF, *ONE]
    assert [value for value in good if is_refused(way, value)] == []


@pytest.mark.parametrize(("number", "good", "bad"), [
    ("epsilon", ["0.5", 1, 1.0, 100], [0, -1, "nan", "inf", "x", "1e-10", 101, [1], ".nan", "0x1"]),
    ("rho", ["0.5", 1], [0, -1, ".inf", "x", "1e-13", 101, [1]]),
])  # fmt: skip
def test_release_files_accept_the_same_numbers(
    number: str, good: list[Any], bad: list[Any]
) -> None:
    assert [value for value in good if is_refused(lambda x: run_release({number: x}), value)] == []
    assert [
        value for value in bad if not is_refused(lambda x: run_release({number: x}), value)
    ] == []
    for delta, wrong in (
        ("1e-9", False),
        (0, False),
        (1, True),
        (2, True),
        (-1, True),
        ("0.1", True),
    ):
        assert is_refused(lambda x: run_release({number: 1, "delta": x}), delta) == wrong


@pytest.mark.parametrize("value", ["nan", "inf", "0", "-1", "x", "true", "1_0", "101", "1/2", ""])
def test_commands_refuse_invalid_numbers(value: str, tmp_path: Path, schema: Path) -> None:
    ledger = ["ledger", "init", str(tmp_path / "l.sqlite"), "--table", "t", "--owner", "o"]
    statement = "SELECT SUM(pay) AS s FROM people"
    for words in (
        [*ledger, f"--epsilon={value}"],
        [*ledger, f"--rho={value}"],
        ["mechanisms", "compare", f"--epsilon={value}"],
        ["sql", statement, "--schema", str(schema), f"--epsilon={value}"],
        *([] if value == "0" else [[*ledger, "--epsilon=1", f"--delta={value}"]]),
    ):
        assert CliRunner().invoke(app, words).exit_code != 0
    assert not (tmp_path / "l.sqlite").exists()


def test_delta_of_1_or_more_is_refused() -> None:
    with pytest.raises(DpReleaseError, match=r"DP-SESSION-006.*`delta`"):
        session(delta=2)
    assert session(delta="0.999").delta == Fraction(999, 1000)
    with pytest.raises(DpReleaseError, match=r"DP-BUDGET-002.*not a number"):
        account_of("t", None, "replace", 1, "x", None)


@pytest.mark.parametrize(
    "value", [0.49, 1, 1.0, True, float("nan"), -1, Fraction(1), np.float64(2)]
)
def test_confidence_out_of_range_is_refused(value: Any) -> None:
    with pytest.raises(DpReleaseError, match="DP-SESSION-006"):
        question({"epsilon": 10}, epsilon=1, confidence=value)
    with pytest.raises(ValidationError, match="DP-RELEASE-005"):
        ColumnSpec.model_validate({"sum": "pay", "margin": "1.5" if value is True else value})
    for good in (0.9, Fraction(9, 10), Decimal("0.9"), np.float32(0.9), np.float64(0.9)):
        question({"epsilon": 10}, epsilon=1, confidence=good)


@pytest.mark.parametrize("value", [*HALF, *ONE, *SMALL])
def test_numbers_are_read_as_printed_decimals(value: Any) -> None:
    assert exact_of(value) == Fraction(str(value))
    assert exact_of(0.1) == exact_of(np.float32(0.1)) == Fraction(1, 10)
