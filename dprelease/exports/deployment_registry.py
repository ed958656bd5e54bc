"""Write the record for the public registry of differential privacy deployments, tiers 1 to 3.

Fields that follow from the release are filled in. Fields that don't, such as intentions, are left
out and listed in a comment at the top. Texts are Markdown, as in the registry.

Source     OpenDP, deployments-registry-data, `schemas/deployments-schema.yaml` at 057e5d8;
           Ghazi, Nanayakkara and Vadhan 2025, arXiv 2509.13509v2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from dprelease.documents.manifest import CentralManifest
from dprelease.documents.metadata import About, Metadata
from dprelease.documents.release_manifest import UnitRecord
from dprelease.exports.export import Export, PublishedRelease
from dprelease.exports.vocabularies import VARIANTS
from dprelease.privacy.unit import PrivacyUnit

FILE = "registry.yaml"
Part = dict[str, Any]

STEWARD_FIELDS = {
    "deployment.basic.intended_use": "what the product is for",
    "deployment.basic.publication_date": "the day of publication, as '2026-12-31'",
    "deployment.basic.data_curators.data_curator_type": "Government, Industry or Nonprofit",
    "deployment.basic.data_product_sector": "such as Government, Healthcare or Education",
    "deployment.deployment_model.trust_assumptions": "who sees the data, and why they are trusted",
    "deployment.deployment_model.actors": "who sees the data or the product",
    "deployment.deployment_model.release_type": "One release or Many releases",
    "deployment.deployment_model.data_source_type": "Static or Dynamic",
    "deployment.implementation.preprocessing_and_hyperparameter_tuning": (
        "what was done to the data before, and how budget and bounds were chosen"
    ),
    "deployment.implementation.justification": "why all of this was chosen",
    "deployment.administrative.registry_authors": "who fills in this record",
}
"""Fields that no declaration has, with an explanation of each field."""

DECLARABLE_FIELDS = {
    "deployment.basic.data_curators": "the publisher",
    "deployment.basic.data_product_region": "the area that the data describe",
    "deployment.basic.description": "what the product is",
}
"""Fields that come from `about` if it is declared, with an explanation of each field."""


class DeploymentRegistry(Export):
    """One record for the registry, to be completed by the person who submits it."""

    name = "registry"

    def write(self, release: PublishedRelease, folder: Path) -> list[str]:
        """Write the record, and return the name of its file."""
        record = registry_record(release)
        lines = ["# A draft for the registry of deployments of differential privacy. Left out are:"]
        lines += [f"#   {name}: {what}" for name, what in _missing_fields(record)]
        text = yaml.dump(
            record, Dumper=_BlockTextDumper, allow_unicode=True, sort_keys=False, width=100,
            default_flow_style=False,
        )  # fmt: skip
        with (folder / FILE).open("x", encoding="utf-8", newline="") as file:
            file.write("\n".join(lines) + "\n" + text)
        return [FILE]


def registry_record(release: PublishedRelease) -> Part:
    """Return the record with all fields that are known."""
    record, about = release.central, release.metadata.about
    deployment = {
        "basic": _basic_fields(about, release.metadata),
        "dp_variant": _privacy_variant(record),
        "privacy_loss": _privacy_loss_fields(record),
        "deployment_model": {"model_name": "Central", "access_type": "Non-interactive"},
        "implementation": _implementation_fields(record, about),
        "administrative": {"status": "Draft", "tier": 3},
    }
    slug = re.sub("[^a-z0-9]+", "-", about.title.lower()).strip("-")
    return ({"url_slug": slug} if slug else {}) | {"deployment": deployment}


def _basic_fields(about: About, metadata: Metadata) -> Part:
    """Return title, publisher, description and area."""
    described = about.description.get("en") or about.description.get(metadata.language)
    return _drop_missing(
        name=about.title,
        data_curators=[{"data_curator_name": about.publisher}] if about.publisher else None,
        description=described,
        data_product_type="Summary statistics",
        data_product_region=about.area,
    )


def _privacy_variant(record: CentralManifest) -> Part:
    """Return the variant of differential privacy, and what it does not protect."""
    return _drop_missing(
        variant_name=VARIANTS[record.dp_variant],
        data_domain=_markdown_list(_domain_texts(record)),
        unprotected_quantities=_markdown_list(record.unprotected_quantities),
    )


def _domain_texts(record: CentralManifest) -> Iterator[str]:
    """Yield a text per table: its columns, and the treatment of missing and undeclared values."""
    treated = {table_record.query: table_record for table_record in record.treatments}
    texts = set()
    for unit in record.privacy_unit:
        table_record = treated[unit.query]
        words = f"Rows of table '{unit.table}'. {table_record.rows.removesuffix('.')}"
        if table_record.columns:
            columns = sorted(table_record.columns.items())
            words += ". " + "; ".join(f"{name}: {how}" for name, how in columns)
        if table_record.join:
            words += f". {table_record.join}"
        if words not in texts:
            texts.add(words)
            yield words


def _privacy_loss_fields(record: CentralManifest) -> Part:
    """Return the privacy unit and the privacy parameters, with explanations."""
    held = record.guarantee
    rho = held.rho if record.dp_variant == "zero_concentrated" else None
    parameters: Part = {} if rho is not None else {"epsilon": float(held.epsilon)}
    if held.delta != "0":
        parameters["delta"] = float(held.delta)
    if rho is not None:
        parameters["rho"] = float(rho)
    units = record.privacy_unit
    ids = dict.fromkeys("record" if unit.id is None else unit.id for unit in units)
    details = [*dict.fromkeys(unit.words for unit in units), _contribution_limit_text(units)]
    return {
        "privacy_unit": "; ".join(f"{name}-level" for name in ids),
        "privacy_unit_details": _markdown_list(details),
        "privacy_parameters": parameters,
        "privacy_parameters_details": _markdown_list(_guarantee_meanings(record)),
    }


def _contribution_limit_text(units: Iterable[UnitRecord]) -> str:
    """Return a sentence on the contribution limits of the privacy units."""
    several = dict.fromkeys(
        PrivacyUnit(
            unit.id, unit.max_groups, unit.max_rows_per_group, unit.max_rows
        ).row_limits_text
        for unit in units
    )
    return f"A unit contributes at most {' or '.join(several)} to one query."


def _guarantee_meanings(record: CentralManifest) -> Iterator[str]:
    """Yield sentences on the guarantee and on its meaning for an attacker."""
    held, reading = record.guarantee, record.reading
    yield f"Epsilon is {held.epsilon} at delta {held.delta}, rounded up."
    if held.rho is not None:
        exempt = "" if held.rho_delta is None else f" up to a delta of {held.rho_delta}"
        yield f"rho is {held.rho}{exempt}, rounded up."
    if held.pure_epsilon is not None:
        yield f"The largest privacy loss of all is {held.pure_epsilon}."
    yield f"{reading.least_total_error_words} Here: {reading.least_total_error:.4f}."
    if record.ledger is not None:
        yield "A ledger adds up what all releases about the same people cost."


def _implementation_fields(record: CentralManifest, about: About) -> Part:
    """Return mechanisms, composition, post-processing and errors."""
    tool = record.tool
    return _drop_missing(
        mechanisms=_markdown_list(_mechanism_texts(record)),
        composition=record.composition,
        post_processing=_markdown_list(_processing_texts(record)),
        utility=_markdown_list(_error_texts(record)),
        additional_information=_markdown_list(
            [
                f"Made with {tool.name} {tool.version}. Beside the tables lies "
                "`manifest.json`, which holds declarations, noise and digests; "
                "`dprelease verify` checks it.",
                *([f"Methodology: {about.methodology}"] if about.methodology else []),
                *([f"Licence: {about.licence}"] if about.licence else []),
                *([f"Contact: {about.contact}"] if about.contact else []),
            ]
        ),
    )


def _mechanism_texts(record: CentralManifest) -> Iterator[str]:
    """Yield a sentence on each limit that was chosen privately, and on the noise of each vector."""
    for limit in () if record.limits is None else record.limits.chosen:
        yield (
            f"{', '.join(limit.queries)}: `{limit.limit}` of {limit.value} was chosen from 1 to "
            f"{limit.up_to} by `{limit.noise.mechanism}`, for {limit.share} of the budget."
        )
    for one in record.measurements:
        numbers = ", ".join(f"{name} {value}" for name, value in sorted(one.parameters.items()))
        yield (
            f"{one.query}, {one.column} ({one.aggregate}): `{one.mechanism}`, "
            f"{numbers}, in steps of {one.step} {one.unit}".strip()
            + "."
        )
    yield (
        "Answers are whole numbers on declared lattices, and noise is drawn from its law without "
        "any error of floating point, by the operating system's random bits."
    )


def _processing_texts(record: CentralManifest) -> Iterator[str]:
    """Yield sentences on all post-processing, each once."""
    yield from record.post_processing
    for family in record.families:
        yield from family.words
    texts = (
        f"{table_record.name}, {column}: {words}"
        for table_record in record.files
        for column, several in table_record.post_processing.items()
        for words in several
    )
    yield from dict.fromkeys(texts)


def _error_texts(record: CentralManifest) -> Iterator[str]:
    """Yield a sentence on the margin of error of each vector."""
    for one in record.measurements:
        yield (
            f"{one.query}, {one.column}: margin of error {one.margin_95} {one.error_unit}".strip()
            + " at 95 %."
        )


def _markdown_list(texts: Iterable[str]) -> str | None:
    """Return texts as a Markdown list; None if there are none."""
    return "".join(f"- {text}\n" for text in texts) or None


def _drop_missing(**fields: Any) -> Part:
    """Return the fields that are neither None nor an empty text."""
    return {name: value for name, value in fields.items() if value not in (None, "")}


def _missing_fields(record: Part) -> Iterator[tuple[str, str]]:
    """Yield the fields without a value, each with its explanation."""
    for name, what in (DECLARABLE_FIELDS | STEWARD_FIELDS).items():
        held: Any = record
        for part in name.split("."):
            held = held[0] if isinstance(held, list) else held
            held = held.get(part) if isinstance(held, dict) else None
        if held is None:
            yield name, what


class _BlockTextDumper(yaml.SafeDumper):
    """Dumps texts of several lines as block scalars."""


def _block_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    """Return a text of several lines as a block scalar, and any other text as usual."""
    # The registry shows these texts as Markdown, whose lines must stay lines.
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_BlockTextDumper.add_representer(str, _block_text)

EXPORT = DeploymentRegistry()
