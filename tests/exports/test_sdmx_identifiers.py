"""SDMX identifiers: valid and unique for every text, and decodable."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.exports.sdmx.sdmx_cubes import (
    RESERVED,
    agency_id,
    code_id,
    component_id,
    cube_id,
    decode_id,
    time_period,
    version_of,
)

NEAR_ESCAPES = st.text(alphabet="_xX05FA1-@$ é", max_size=12)
CODES, COMPONENTS = r"[A-Za-z0-9_@$\-]+", r"[A-Za-z][A-Za-z0-9_\-]*"


@pytest.mark.parametrize("make", [code_id, component_id])
@given(text=st.one_of(st.text(st.characters(codec="utf-8"), max_size=20), NEAR_ESCAPES))
def test_sdmx_identifiers_are_valid_and_decodable(make, text: str) -> None:
    """Decoding proves that they are unique."""
    if make is component_id and not text:
        return
    found = make(text)
    assert re.fullmatch(CODES if make is code_id else COMPONENTS, found)
    assert decode_id(found) == text


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("0-17", "0-17"), ("65+", "65_x002B_"), ("Bern Stadt", "Bern_x0020_Stadt"), ("", "_x_"),
        ("_x0041_", "_x005F_x0041_"), ("A", "A"), ("a@b$c", "a@b$c"), ("😀", "_x1F600_"),
        ("NA", "NA"), ("-5", "-5"), ("X_x_a", "X_x005F_x_a"),
    ],
)  # fmt: skip
def test_sdmx_code_ids(value: str, code: str) -> None:
    assert code_id(value) == code
    assert decode_id(code) == value


@pytest.mark.parametrize(
    ("name", "found"),
    [("state", "state"), ("Größe", "Gr_x00F6__x00DF_e"), ("_a", "X_x__a"), ("1st", "X_x_1st")],
)
def test_sdmx_component_ids(name: str, found: str) -> None:
    assert component_id(name) == found


def test_sdmx_cube_ids_are_unique() -> None:
    asked = [("a/b", ""), ("a_b", ""), ("a", "b"), ("a/b", "c"), ("a", "b_c"), ("a", "")]
    assert len({cube_id(*one) for one in asked}) == len(asked)


@pytest.mark.parametrize(
    ("period", "found"),
    [
        ("2024", "2024"), ("2024-02", "2024-02"), ("2024-02-29", "2024-02-29"),
        ("2024-01-01/2024-12-31", "2024"), ("2024-04-01/2024-06-30", "2024-Q2"),
        ("2024-02-01/2024-02-29", "2024-02"), ("2023-02-01/2023-02-28", "2023-02"),
        ("2024-02-01/2024-02-28", "2024-02-01/P28D"), ("2024-03-01/2024-05-31", "2024-03-01/P92D"),
        ("2024-01-01/2025-12-31", "2024-01-01/P731D"), ("2024/2025", "2024-01-01/P731D"),
        ("2024-01/2024-03", "2024-Q1"), ("2024-01-01/2024-01-01", "2024-01-01/P1D"),
        ("9999-01-01/9999-12-31", "9999"),
        ("2023-02-29", None), ("2024-13", None), ("last year", None), ("", None),
        ("2024-02-01/2024-01-01", None), ("2024-01-01/", None), ("1/2/3", None), ("0000", None),
    ],
)  # fmt: skip
def test_sdmx_time_periods(period: str, found: str | None) -> None:
    assert time_period(period) == found


@pytest.mark.parametrize(
    ("publisher", "found"),
    [
        ("Office of Statistics", "Office_of_Statistics"), ("", "UNSPECIFIED"), ("統計局", "UNSPECIFIED"),
        ("2nd Office", "A_2nd_Office"), ("ESTAT", "ESTAT"),
    ],
)  # fmt: skip
def test_sdmx_agency_ids(publisher: str, found: str) -> None:
    assert agency_id(publisher) == found


@pytest.mark.parametrize(
    ("declared", "found"),
    [("", "1.0.0"), ("2", "1.0.0"), ("1.2", "1.2.0"), ("1.2.3", "1.2.3"), ("v1.2", "1.0.0")],
)
def test_sdmx_versions(declared: str, found: str) -> None:
    assert version_of(declared) == found


def test_reserved_names_are_upper_case() -> None:
    assert all(name == name.upper() for name in RESERVED)
