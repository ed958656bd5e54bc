"""The record for the deployment registry: only known fields with admitted values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from dprelease.documents.metadata import About, Metadata
from dprelease.exports.deployment_registry import DECLARABLE_FIELDS, EXPORT, STEWARD_FIELDS
from dprelease.exports.export import PublishedRelease
from tests.exports import full_release

TEXT = str
ADMITTED: dict[str, Any] = {
    "url_slug": TEXT,
    "deployment.basic.name": TEXT,
    "deployment.basic.data_curators.data_curator_name": TEXT,
    "deployment.basic.data_curators.data_curator_type": {"Government", "Industry", "Nonprofit"},
    "deployment.basic.description": TEXT,
    "deployment.basic.intended_use": TEXT,
    "deployment.basic.data_product_type": {
        "Summary statistics", "Machine learning model", "Dataset", "Synthetic data",
        "Interactive API", "SQL queries",
    },
    "deployment.basic.data_product_region": TEXT,
    "deployment.basic.data_product_sector": TEXT,
    "deployment.basic.publication_date": TEXT,
    "deployment.dp_variant.variant_name": {
        "Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom",
    },
    "deployment.dp_variant.data_domain": TEXT,
    "deployment.dp_variant.unprotected_quantities": TEXT,
    "deployment.privacy_loss.privacy_unit": TEXT,
    "deployment.privacy_loss.privacy_unit_details": TEXT,
    "deployment.privacy_loss.number_of_privacy_units": int,
    "deployment.privacy_loss.privacy_parameters.epsilon": float,
    "deployment.privacy_loss.privacy_parameters.delta": float,
    "deployment.privacy_loss.privacy_parameters.rho": float,
    "deployment.privacy_loss.privacy_parameters_details": TEXT,
    "deployment.deployment_model.model_name": {"Local", "Central", "Shuffle", "Federated"},
    "deployment.deployment_model.trust_assumptions": TEXT,
    "deployment.deployment_model.actors": TEXT,
    "deployment.deployment_model.release_type": {"One release", "Many releases"},
    "deployment.deployment_model.data_source_type": {"Static", "Dynamic"},
    "deployment.deployment_model.access_type": {"Interactive", "Non-interactive"},
    "deployment.implementation.preprocessing_and_hyperparameter_tuning": TEXT,
    "deployment.implementation.mechanisms": TEXT,
    "deployment.implementation.composition": TEXT,
    "deployment.implementation.post_processing": TEXT,
    "deployment.implementation.justification": TEXT,
    "deployment.implementation.utility": TEXT,
    "deployment.implementation.additional_information": TEXT,
    "deployment.administrative.status": {"Draft"},
    "deployment.administrative.registry_authors": TEXT,
    "deployment.administrative.tier": {1, 2, 3},
}  # fmt: skip
"""The registry's fields, by their paths: a type, or the values that they admit."""


def leaves(held: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(held, dict):
        for name, value in held.items():
            yield from leaves(value, f"{path}.{name}".strip("."))
    elif isinstance(held, list):
        for value in held:
            yield from leaves(value, path)
    else:
        yield path, held


def write_record(release: PublishedRelease, folder: Path) -> tuple[str, dict[str, Any]]:
    assert EXPORT.write(release, folder) == ["registry.yaml"]
    text = (folder / "registry.yaml").read_text(encoding="utf-8")
    return text, yaml.safe_load(text)


def check(record: dict[str, Any]) -> dict[str, Any]:
    """Return the leaves of a record, all of which the registry has and admits."""
    found = dict(leaves(record))
    for path, value in found.items():
        admitted = ADMITTED[path]
        assert value in admitted if isinstance(admitted, set) else type(value) is admitted, path
        assert value not in ("", None)
    return found


BUDGETS = {
    "pure": ("{epsilon: 1}", "laplace", "Pure DP", {"epsilon"}),
    "approximate": (
        "{epsilon: 1, delta: 1e-8}",
        "gaussian",
        "Approximate DP",
        {"epsilon", "delta"},
    ),
    "rho": ("{rho: 0.1, delta: 1e-8}", "gaussian", "Zero-concentrated DP", {"delta", "rho"}),
}
SMALL = """\
title: "People: all of them"
about: {{languages: [en, de]}}
tables: [people.yaml]
budget: {budget}
mechanism: {mechanism}
queries:
  total: {{from: people, columns: {{n: {{count: "*", round_to: 5}}}}}}
output: out
"""


@pytest.mark.parametrize("budget", BUDGETS)
def test_registry_record_of_each_privacy_variant(tmp_path: Path, budget: str) -> None:
    amount, mechanism, name, parameters = BUDGETS[budget]
    release = full_release.publish_release(
        tmp_path, SMALL.format(budget=amount, mechanism=mechanism)
    )
    text, record = write_record(release, tmp_path)
    found = check(record)
    of = "deployment.privacy_loss.privacy_parameters."
    assert found["deployment.dp_variant.variant_name"] == name
    assert {path.removeprefix(of) for path in found if path.startswith(of)} == parameters
    guarantee = release.record.to_json()["guarantee"]
    for parameter in parameters:
        assert found[of + parameter] == float(guarantee[parameter])
    assert "multiples of 5" in found["deployment.implementation.post_processing"]
    assert f"`{mechanism}`" in found["deployment.implementation.mechanisms"]
    assert found["url_slug"] == "people-all-of-them"
    # Nothing was declared about it, so what only a declaration could tell is left out, and told.
    assert not set(found) & (set(DECLARABLE_FIELDS) | set(STEWARD_FIELDS))
    assert all(f"#   {path}:" in text for path in (*DECLARABLE_FIELDS, *STEWARD_FIELDS))


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> PublishedRelease:
    return full_release.publish_release(tmp_path_factory.mktemp("registry"))


def test_registry_record_has_all_declared_fields(release: PublishedRelease, tmp_path: Path) -> None:
    text, record = write_record(release, tmp_path)
    found = check(record)
    assert found["deployment.basic.data_curators.data_curator_name"] == "Office of Statistics"
    assert found["deployment.basic.data_product_region"] == "Switzerland"
    assert found["deployment.basic.description"] == "People by area. <en> & 'it'"
    assert not any(f"#   {path}:" in text for path in DECLARABLE_FIELDS)
    assert all(f"#   {path}:" in text for path in STEWARD_FIELDS)
    for words in release.record.to_json()["unprotected_quantities"]:
        assert f"- {words}\n" in found["deployment.dp_variant.unprotected_quantities"]
    told = found["deployment.implementation.mechanisms"]
    for measurement in release.record.to_json()["measurements"]:
        assert f"{measurement['query']}, {measurement['column']} (" in told
        assert all(value in told for value in measurement["parameters"].values())
    additional = found["deployment.implementation.additional_information"]
    assert "https://office.example/methods" in additional
    assert "CC-BY-4.0" in additional


def test_omitted_fields_exist_in_the_registry() -> None:
    known = {*ADMITTED, *(path.rpartition(".")[0] for path in ADMITTED)}
    assert set(DECLARABLE_FIELDS) | set(STEWARD_FIELDS) <= known


@pytest.mark.parametrize("text", ["a: b # c", "yes", "| x", "- y", "'\"", "\u202e{[", "123", "~"])
def test_registry_texts_stay_texts(release: PublishedRelease, tmp_path: Path, text: str) -> None:
    about = About(text, publisher=text, area=text, description={"en": text})
    _, record = write_record(
        replace(release, metadata=Metadata(about, ("en",), release.metadata.tables)), tmp_path
    )
    basic = record["deployment"]["basic"]
    assert basic["name"] == basic["data_product_region"] == basic["description"] == text
    assert basic["data_curators"] == [{"data_curator_name": text}]
