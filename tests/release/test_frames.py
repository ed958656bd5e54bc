"""Frames replace the sources of their tables or are refused; the declared file is not read instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dprelease
from dprelease.errors import DataError
from tests.release.build import write

pytestmark = pytest.mark.usefixtures("replayed_noise")

FRAME = pd.DataFrame(
    {"person": range(10), "city": ["Bern"] * 10, "age": [1] * 10, "pay": [0.5] * 10}
)
Ask = Callable[[Path, object], float]


def _run(folder: Path, frames: dict[str, object]) -> float:
    out = dprelease.read_release(folder / "release.yaml").run(
        output=folder / "out", frames=frames, overwrite=True
    )
    return float(pd.read_parquet(out / "all.parquet")["rows"].iloc[0])


def _sql(folder: Path, frames: dict[str, object]) -> float:
    text = "SELECT COUNT(*) AS n FROM people"
    found = dprelease.sql(text, folder / "people.yaml", epsilon=50, frames=frames)
    return float(found["n"].iloc[0])


def _sql_published(folder: Path, frames: dict[str, object]) -> float:
    text = "SELECT COUNT(*) AS n FROM people"
    schema, out = folder / "people.yaml", folder / "sql"
    found = dprelease.sql(text, schema, epsilon=50, frames=frames, output=out)
    return float(found["n"].iloc[0])


WAYS = [_run, _sql, _sql_published]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The declared file has 500 rows, the frame 10."""
    write(tmp_path, [f"{i},Oslo,{i % 80},1.5\n" for i in range(500)])
    return tmp_path


def _declare_frame(folder: Path) -> None:
    schema = folder / "people.yaml"
    schema.write_text(schema.read_text().replace("people.csv", "{frame: survey}"))


@pytest.mark.share(0.4)
@pytest.mark.parametrize("ask", WAYS)
def test_frames_replace_sources(folder: Path, ask: Ask) -> None:
    assert ask(folder, {"people": FRAME}) < 100
    _declare_frame(folder)
    for path in (folder / "sql", folder / "out"):
        if path.exists():
            path.rename(folder / f"{path.name}_before")
    assert ask(folder, {"survey": FRAME}) < 100


@pytest.mark.parametrize("ask", WAYS)
@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ({"peeple": FRAME}, "'peeple' is the name of no table (did you mean 'people'?)"),
        ({"people": FRAME, "trips": FRAME}, "'trips' is the name of no table"),
        ({"people": None}, "'people' is None, not a frame"),
        ({"people": FRAME, "survey": FRAME}, "'survey' names the same table as 'people'"),
        ({1: FRAME}, "'1' is the name of no table"),
    ],
)
def test_frames_of_unknown_tables_are_refused(
    folder: Path, ask: Ask, frames: dict[str, object], words: str
) -> None:
    _declare_frame(folder)
    with pytest.raises(DataError, match="DP-DATA-016") as caught:
        ask(folder, frames)
    assert words in caught.value.cause
    assert "people, survey" in caught.value.fix
    assert not (folder / "out").exists()
    assert not (folder / "sql").exists()


class LazyFrame:
    """A frame with names and types, but no rows yet."""

    columns = ("person", "city", "age", "pay")
    dtypes = ("int", "str", "int", "float")


@pytest.mark.share(0.5)
@pytest.mark.parametrize("ask", WAYS)
@pytest.mark.parametrize("frame", [LazyFrame(), [1, 2], "people.csv", FRAME.to_dict("list")])
def test_objects_that_are_no_frames_are_refused(folder: Path, ask: Ask, frame: object) -> None:
    with pytest.raises(DataError, match="DP-DATA-017") as caught:
        ask(folder, {"people": frame})
    assert type(frame).__name__ in caught.value.cause


@pytest.mark.parametrize("ask", WAYS)
@pytest.mark.parametrize(
    "frames", [FRAME, [FRAME], FRAME["age"], "people", 3], ids=lambda f: type(f).__name__
)
def test_frames_not_in_a_mapping_are_refused(folder: Path, ask: Ask, frames: Any) -> None:
    """A TypeError that names the tables."""
    with pytest.raises(TypeError, match="DP-DATA-020") as caught:
        ask(folder, frames)
    assert isinstance(caught.value, DataError)
    assert type(frames).__name__ in str(caught.value)
    assert "known names are: people" in str(caught.value)
