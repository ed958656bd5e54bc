"""Labels of the schema are attached to results, and replace names and codes on request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dprelease
from dprelease.accessor.labelled_answers import labelled
from dprelease.errors import SessionError, UsageError

SCHEMA: dict[str, Any] = {
    "table": "people",
    "columns": {
        "sex": {
            "type": "category",
            "label": {"en": "Sex", "fr": "Sexe"},
            "values": {"F": {"en": "Female", "fr": "Femme"}, "M": {"en": "Male", "fr": "Homme"}},
        },
        "adult": {"type": "boolean", "label": {"en": "Adult", "fr": "Adulte"}, "labels": {"true": {"en": "Yes", "fr": "Oui"}}},
        "city": {"type": "category", "values": ["a", "b"]},
        "pay": {"type": "integer", "label": {"en": "Pay, EUR", "fr": "Salaire"}, "lower": 0, "upper": 9},
    },
}  # fmt: skip
FRAME = pd.DataFrame(
    {
        "sex": ["F", "M"] * 50,
        "adult": [True, False] * 50,
        "city": ["a", "b"] * 50,
        "pay": np.arange(100) % 9,
    }
)


@pytest.fixture
def df() -> Iterator[pd.DataFrame]:
    frame, session = FRAME.copy(), dprelease.Session(SCHEMA, epsilon=1000, delta="1e-6")
    frame.dp.use(session)
    yield frame
    assert session.spent.epsilon > 0


ASKED: dict[str, Any] = {
    "count": lambda df: df.dp.count(by=["sex", "adult"], epsilon=1),
    "mean": lambda df: df.dp.mean("pay", by="sex", epsilon=1),
    "crosstab": lambda df: df.dp.crosstab("sex", "adult", epsilon=1),
    "value_counts": lambda df: df.dp.value_counts("sex", epsilon=1),
    "series": lambda df: df.dp.groupby("sex")["pay"].mean(epsilon=1),
    "frame": lambda df: df.dp.groupby(["sex", "adult"])[["pay"]].sum(epsilon=1),
    "agg": lambda df: df.dp.groupby("sex").agg({"pay": ["mean", "sum"]}, epsilon=1),
    "flat": lambda df: df.dp.groupby("sex", as_index=False)["pay"].sum(epsilon=1),
    "sql": lambda df: df.dp.sql("SELECT sex, AVG(pay) AS pay FROM people GROUP BY sex", epsilon=1),
    "private": lambda df: df.dp.count(by="sex", epsilon=9, delta="1e-7", private_keys=True),
}


def texts_of(answer: Any) -> str:
    """Return all names and values of an answer that are no numbers."""
    frame = (
        answer.reset_index()
        if isinstance(answer, pd.DataFrame)
        else answer.to_frame().reset_index()
    )
    cells = [str(cell) for cell in frame.astype(object).to_numpy().ravel()]
    names = [str(name) for name in (*frame.columns, *frame.columns.names)]
    return " | ".join([*names, *cells])


@pytest.mark.share(0.5)
@pytest.mark.parametrize("language", [None, "en", "fr"])
@pytest.mark.parametrize("case", ASKED)
def test_labels_replace_names_and_codes(case: str, language: str | None, df: pd.DataFrame) -> None:
    answer = ASKED[case](df)
    before = answer.copy()
    shown = labelled(answer, language)
    text = texts_of(shown)
    for label in ("Femme", "Homme", "Sexe") if language == "fr" else ("Female", "Male", "Sex"):
        assert label in text, text
    assert "'F'" not in text
    assert {"F", "M"}.isdisjoint(text.split(" | "))
    if "adult" in texts_of(answer):
        assert ("Adulte" if language == "fr" else "Adult") in text
        assert ("Oui" if language == "fr" else "Yes") in text
    assert answer.equals(before)
    assert shown.shape == answer.shape
    numbers = [
        np.asarray(one.select_dtypes("number") if one.ndim > 1 else one) for one in (answer, shown)
    ]
    np.testing.assert_array_equal(*numbers)  # some may be missing
    assert type(shown) is type(answer)


def test_labels_survive_operations_of_pandas(df: pd.DataFrame) -> None:
    """Sorting, filtering, indexing and copying, where pandas keeps attributes."""
    answer = df.dp.count(by=["sex", "city"], epsilon=1)
    for worked in (
        answer.sort_values("value"),
        answer[answer["city"] == "a"],
        answer.set_index(["sex", "city"]),
        answer.copy(),
    ):
        assert "Female" in texts_of(labelled(worked)), worked
    tables = df.dp.tables(cube=["sex", "adult"], epsilon=1)
    assert "Femme" in texts_of(labelled(tables["sex"], "fr"))


def test_equal_labels_are_not_used() -> None:
    """Two codes with one label stay codes, to keep rows distinct."""
    columns = {"sex": {"type": "category", "values": {"F": "Person", "M": "Person"}}}
    df, session = FRAME.copy(), dprelease.Session({"table": "t", "columns": columns}, epsilon=9)
    df.dp.use(session)
    assert set(labelled(df.dp.count(by="sex", epsilon=1))["sex"]) == {"F", "M"}


def test_results_without_labels_stay_unchanged(df: pd.DataFrame) -> None:
    plain = df.dp.count(by="city", epsilon=1)
    assert "labels" not in plain.attrs["dprelease_answer"]
    pd.testing.assert_frame_equal(labelled(plain), plain)
    with pytest.raises(SessionError, match="DP-SESSION-018"):
        labelled(df.dp.count(by="sex", epsilon=1), "de")
    for other in (FRAME, 3, None):
        with pytest.raises(UsageError, match="DP-SESSION-016"):
            labelled(other)  # type: ignore[type-var]
    assert dprelease.labelled is labelled
