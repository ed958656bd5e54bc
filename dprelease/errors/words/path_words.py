"""Catalogue: path arguments of people."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-PATH-001": Template(
        cause="'{uri}' is a URI with the scheme {scheme}, but a local path is needed.",
        fix="{way}.",
    ),
    "DP-PATH-002": Template(
        cause="'{path}' starts with ~, which a shell replaces by a home folder but dprelease does "
        "not.",
        fix="write the whole path, as in /home/me/data; or, in a shell, use ~ without quotes.",
    ),
    "DP-PATH-003": Template(
        cause="The name '{path}' is not valid UTF-8.",
        fix="rename the file or folder.",
    ),
    "DP-PATH-005": Template(
        cause="No file can have the path '{path}': {problem}.",
        fix="use another path.",
    ),
    "DP-PATH-004": Template(
        cause="A source can't be replaced: {problem}.",
        fix="name a table and the path of a source of its declared type; the tables are: {known}.",
    ),
}
