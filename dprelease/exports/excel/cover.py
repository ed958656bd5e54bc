"""Write the cover: what the workbook is, whom to contact, who is protected and how strongly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dprelease.exports.export import PublishedRelease
from dprelease.exports.names import in_first

HEAD, TEXT = "head", "text"


def cover_lines(release: PublishedRelease) -> Iterator[tuple[str, str]]:
    """Yield the lines of the cover below its title, each with its style."""
    record, metadata = release.record, release.metadata
    about = metadata.about
    for text in (in_first(about.description, metadata),):
        if text:
            yield TEXT, text
    facts = {
        "Published by": about.publisher,
        "Contact": about.contact,
        "Licence": about.licence,
        "Reference period": about.period,
        "Area": about.area,
        "Version": about.version,
        "Replaces": about.replaces,
        "Methodology": about.methodology,
    }
    if any(facts.values()):
        yield HEAD, "About"
    yield from ((TEXT, f"{name}: {text}") for name, text in facts.items() if text)
    yield HEAD, "Who is protected"
    words = [unit["words"].removesuffix(".") for unit in record["privacy_unit"]]
    sentences = dict.fromkeys(sentence for text in words for sentence in text.split(". "))
    yield from ((TEXT, f"{sentence}.") for sentence in sentences)
    yield HEAD, "How well"
    yield from ((TEXT, text) for text in _guarantee(record))
    yield HEAD, "What is not protected"
    yield from ((TEXT, text) for text in record["unprotected_quantities"])
    yield HEAD, "Processing of the numbers"
    yield from ((TEXT, text) for text in record["post_processing"])


def _guarantee(record: Any) -> Iterator[str]:
    """Yield epsilon and delta, and what they mean for an attacker's guess about a person."""
    parameters, reading = record["privacy_parameters"], record["reading"]
    exact = record.get("guarantee", {}).get("invariants", [])
    but = f", except the values that are published exactly: {', '.join(exact)}" if exact else ""
    yield (
        f"Differential privacy with epsilon {float(parameters['epsilon']):.4g} and delta "
        f"{float(parameters['delta']):.4g}: noise was added to every number in every table{but}."
    )
    yield f"{reading['least_total_error_words']} It is {reading['least_total_error']:.3g}."
    beliefs = ", ".join(
        f"{100 * one['prior']:g} % to {100 * one['posterior']:.3g} %"
        for one in reading["largest_posterior"]
    )
    yield f"{reading['largest_posterior_words']} From {beliefs}."
