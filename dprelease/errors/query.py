"""Catalogue: errors of the kind "query"."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {}
