"""Catalogue: paths that people give."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-PATH-001": Template(
        cause="'{uri}' is a URI of the scheme {scheme}, and a path of this machine is needed.",
        fix="{way}.",
    ),
}
