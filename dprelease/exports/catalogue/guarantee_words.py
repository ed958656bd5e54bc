"""Describe the guarantee of a release in one paragraph, from its manifest."""

from __future__ import annotations

from dprelease.documents.manifest import CentralManifest

VARIANTS = {
    "pure": "Pure DP",
    "approximate": "Approximate DP",
    "zero_concentrated": "Zero-concentrated DP",
}
"""Names of privacy variants in the registry of deployments, by their names in the manifest."""


def guarantee_paragraph(record: CentralManifest, *, with_units: bool = True) -> str:
    """Return one paragraph in English: who is protected, by which parameters, by which tool.

    `with_units`: whether to describe the privacy units, which may differ from table to table.
    """
    units = list(dict.fromkeys(unit.words for unit in record.privacy_unit)) if with_units else []
    tool = record.tool
    exact = record.guarantee.invariants
    outside = (
        [f"Published exactly, outside of this guarantee: {', '.join(exact)}."] if exact else []
    )
    return " ".join(
        [
            f"Differentially private ({VARIANTS[record.dp_variant]}): {parameters_text(record)}.",
            *outside,
            *units,
            f"Made with {tool.name} {tool.version}; the manifest lists all noise.",
        ]
    )


def parameters_text(record: CentralManifest) -> str:
    """Return the parameters of the guarantee as text."""
    held = record.guarantee
    words = f"epsilon {held.epsilon}"
    if held.delta != "0":
        words += f" at delta {held.delta}"
    if held.rho is not None:
        words += f", rho {held.rho}"
    if held.rho_delta is not None:
        words += f" up to a delta of {held.rho_delta}"
    return words
