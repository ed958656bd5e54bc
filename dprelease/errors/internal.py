"""Catalogue: broken promises of this library."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-INTERNAL-001": Template(
        cause="An internal check failed: {check}.",
        fix="please report it together with the release file; no value of the data is needed.",
    ),
}
