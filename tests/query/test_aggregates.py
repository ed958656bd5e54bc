"""Every aggregate and every form is known wherever something has to be known of it, and only there."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dprelease
from dprelease.errors import DpReleaseError
from dprelease.mechanisms import registry
from dprelease.noise.selections import CHOOSERS
from dprelease.postprocess.derived_values import FRACTIONS, WHOLE
from dprelease.privacy.unit import Neighbours
from dprelease.query.aggregates.aggregate import Aggregate
from dprelease.query.answers import SELECTION_MECHANISMS, keyword_functions
from dprelease.query.forms.single_part import LABEL, MEASURED, QUANTILE, READ_FROM_TREE
from dprelease.query.measurement import Form, Measurement
from dprelease.schema.aggregate_keywords import WORDS, Origin
from dprelease.schema.column_spec import ColumnSpec
from dprelease.statements.values.row_values import WRITERS
from dprelease.tables.published_columns import published_types
from tests.exact.build import ask, declare, exact

PACKAGE = Path(dprelease.__file__).parent
SHOWN = {MEASURED, QUANTILE, READ_FROM_TREE, LABEL}
keyword_functions()  # whatever is declared is imported


def classes_of(base: type[Any]) -> list[type[Any]]:
    """Return the classes that modules have; a dataclass with slots leaves another one behind."""
    return [
        kind
        for kind in base.__subclasses__()
        if getattr(sys.modules[kind.__module__], kind.__name__, None) is kind
    ]


AGGREGATES = {kind.__name__: kind for kind in classes_of(Aggregate)}


def test_every_keyword_has_an_aggregate() -> None:
    assert set(keyword_functions()) == set(WORDS)


@pytest.mark.parametrize("kind", AGGREGATES.values(), ids=AGGREGATES)
def test_every_aggregate_has_sql_and_an_answer(kind: type[Aggregate]) -> None:
    """As SQL, unless it selects keys; by its own way to choose, unless it is noised."""
    assert (kind in WRITERS) is not kind.selects_keys
    assert (kind in CHOOSERS) is kind.is_choice
    assert kind.is_choice + kind.is_vector + kind.selects_keys == 1
    assert set(kind.mechanisms) <= set(registry.selection_names()) == set(SELECTION_MECHANISMS)


@pytest.mark.parametrize("kind", AGGREGATES.values(), ids=AGGREGATES)
def test_no_field_defaults_to_a_property(kind: type[Aggregate]) -> None:
    """A field named like a property of the base class has it for a default, unless it says none."""
    inherited = {field.name for field in fields(kind) if isinstance(field.default, property)}
    assert not inherited


def test_every_form_is_handled() -> None:
    forms = [kind() for kind in classes_of(Form)]
    assert set(forms) == {*WHOLE, *FRACTIONS, *SHOWN}
    assert len(forms) == len(WHOLE) + len(FRACTIONS) + len(SHOWN)
    assert {form for form in forms if form.on_lattice} == {
        *WHOLE, MEASURED, QUANTILE, READ_FROM_TREE,
    }  # fmt: skip


def used_names(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name | ast.Attribute):
            yield part.id if isinstance(part, ast.Name) else part.attr


def asked_of(text: str) -> Iterator[str]:
    """Yield the classes by which a text tells objects apart."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and "isinstance" in used_names(node.func):
            yield from used_names(node.args[1])
        elif isinstance(node, ast.MatchClass):
            yield from used_names(node.cls)
        elif isinstance(node, ast.Compare) and list(used_names(node.left))[:1] == ["type"]:
            yield from (name for part in node.comparators for name in used_names(part))


OUTSIDE = ("auditing/", "reconstruction/")
"""Folders that look at releases as others would, and take no part in them."""


def test_no_stage_checks_types_of_aggregates() -> None:
    """What differs from one to the other, it says itself, or a table has an entry for it."""
    wanted = {*AGGREGATES, *(kind.__name__ for kind in classes_of(Form))}
    found = {
        str(file.relative_to(PACKAGE)): names
        for file in PACKAGE.rglob("*.py")
        if not str(file.relative_to(PACKAGE)).startswith(OUTSIDE)
        and "import exp" not in (text := file.read_text(encoding="utf-8"))
        and (names := wanted & set(asked_of(text)))
    }
    assert found == {}
    assert set(asked_of("match x:\n case Sum(a=1): isinstance(y, q.Tree | Count)")) >= {
        "Sum", "Tree", "Count",
    }  # fmt: skip


COLUMNS: dict[str, Any] = {
    "k": {"type": "category", "values": ["a", "b", "c"]},
    "n": {"type": "integer", "lower": -5, "upper": 20, "unit": "m"},
    "x": {"type": "number", "lower": "-2.5", "upper": 10, "step": "0.25"},
    "p": {"type": "integer", "lower": 0, "upper": 9},
    "w": {"type": "number", "lower": 0, "upper": 4, "step": "0.5"},
}
TOLD: dict[str, tuple[dict[str, Any], list[tuple[str, ...]]]] = {
    "count": ({"count": "*"}, [("rows", "rows", "1", "1")]),
    "sum": ({"sum": "n"}, [("m", "m", "1", "1")]),
    "mean": ({"mean": "x"}, [("", "", "1/4", "1/4"), ("rows", "rows", "1", "1")]),
    "variance": (
        {"variance": "n"},
        [("(m)^2", "(m)^2", "1", "1"), ("m", "m", "1", "1"), ("rows", "rows", "1", "1")],
    ),
    "count_distinct": ({"count_distinct": "k"}, [("k", "k", "1", "1")]),
    "quantile": ({"quantile": {"of": "x", "at": "0.4"}}, [("", "rows", "1/4", "1/5")] * 3),
    "mode": ({"mode": "k"}, [("", "rows", "1", "1")]),
}


@pytest.mark.parametrize("name", TOLD)
def test_units_and_steps_of_values_and_errors(name: str) -> None:
    spec, wanted = TOLD[name]
    measurements = ask(declare(COLUMNS), {"c": spec}).measurements
    assert [shown_errors(measurement) for measurement in measurements] == wanted


def shown_errors(measurement: Measurement) -> tuple[str, ...]:
    steps = (str(measurement.step), str(measurement.error_step))
    return measurement.unit, measurement.error_unit, *steps


OF_VALUES = {
    "mode": {"mode": "k"},
    "top_k": {"top_k": "k", "k": 2},
    "count_distinct": {"count_distinct": "k"},
    "ratio": {"ratio": ["n", "x"]},
    "share": {"share": "*"},
    "quantile_ratio": {"quantile_ratio": {"of": "p", "over": "0.8", "under": "0.2"}},
    "quantile": {"quantile": {"of": "n", "at": "0.3"}},
    "covariance": {"covariance": ["n", "x"]},
    "covariance_pop": {"covariance_pop": ["n", "x"]},
    "correlation": {"correlation": ["n", "x"]},
    "slope": {"slope": {"of": "n", "on": "x", "controls": ["w"]}},
    "intercept": {"intercept": {"of": "n", "on": "x"}},
    "weighted_count": {"weighted_count": "w"},
    "weighted_sum": {"weighted_sum": {"of": "n", "weight": "w"}},
    "weighted_mean": {"weighted_mean": {"of": "x", "weight": "w"}},
    "effective_size": {"effective_size": "w"},
    "design_error": {
        "design_error": {
            "weight": "w",
            "replicates": ["n"],
            "scale": "1/2",
            "of": "x",
            "max_difference": 7,
        }
    },
}


@pytest.mark.share(0.25)
@pytest.mark.parametrize("word", sorted(WORDS))
def test_largest_contribution_of_a_row_is_tight(word: str) -> None:
    """How wide a vector has to be follows from it: too little overflows, too much is wasted."""
    query = ask(declare(COLUMNS), {"c": OF_VALUES.get(word, {word: "n"})})
    rows = [{"k": "a", "n": n, "x": x, "p": 3, "w": 4.0} for n in (-5, 7, 20) for x in (-2.5, 10.0)]
    tables = [exact(query, pa.Table.from_pylist([row])) for row in rows]
    for measurement in query.measurements:
        if measurement.is_vector:
            added = max(int(np.abs(table[measurement.name]).max()) for table in tables)
            assert added == measurement.aggregate.most_added(measurement.sensitivity)


@pytest.mark.share(0.25)
@pytest.mark.parametrize(("lower", "upper"), [(2, 9), (-9, -2), (-4, 3), (0, 5), (-5, 0)])
@pytest.mark.parametrize("word", ["sum", "variance"])
def test_replaced_and_missing_rows_stay_within_the_claim(word: str, lower: int, upper: int) -> None:
    """As far as is claimed, and no farther: a value that is missing adds nothing to any sum."""
    column = {"type": "integer", "lower": lower, "upper": upper}
    query = ask(declare({"n": column}), {"c": {word: "n"}}, neighbours=Neighbours.REPLACE)
    rows = [*range(lower, upper + 1), None]
    kind = pa.schema([("n", pa.int64())])
    tables = [exact(query, pa.Table.from_pylist([{"n": n}], schema=kind)) for n in rows]
    for measurement in query.measurements:
        held = [int(table[measurement.name][0]) for table in tables]
        assert max(held) - min(held) == measurement.sensitivity.largest_shift


BESIDE: list[dict[str, Any]] = [
    {},
    {"margin": True},
    {"suppress_above": "30%", "suppress_below": {"people": 3}},
    {"quality": False},
    {"top_code": 5, "labels": True},
    {"margin": "90%", "suppress_above": "30%", "bottom_code": 0, "labels": True},
]
ASKED = [
    *({**OF_VALUES.get(word, {word: "n"}), **beside} for word in WORDS for beside in BESIDE),
    *({"top_k": "k", "k": k} for k in (1, 3)),
]


@pytest.mark.parametrize("spec", ASKED, ids=str)
def test_published_names_are_checked(spec: dict[str, Any]) -> None:
    """A name that twins are not looked for could be that of a key: a table without the key."""
    word = next(name for name in WORDS if name in spec)
    origin, beside = WORDS[word].origin, spec.keys() - {word, "k"}
    no_margin = origin in (Origin.CHOSEN, Origin.LABEL) and beside & {"margin", "suppress_above"}
    of_choices = word == "quantile_ratio" and spec.get("margin") == "90%"
    if no_margin or of_choices or (origin is Origin.LABEL and "labels" in beside):
        with pytest.raises(DpReleaseError):
            ask(declare(COLUMNS), {"c": spec})
        return
    query = ask(declare(COLUMNS), {"c": spec, "all": {"count": "*"}})
    columns = [column for column in query.columns if column.name != "all"]
    names = [name for column in columns for name, _ in published_types(query, column)]
    assert names == ColumnSpec.model_validate(spec).published_names("c")
