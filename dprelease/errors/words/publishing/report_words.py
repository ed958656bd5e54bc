"""Catalogue: reports on releases."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-REPORT-001": Template(
        cause="A report needs {packages}, and at least one of them is not installed.",
        fix="install the extra: pip install 'dprelease[report]'.",
    ),
    "DP-REPORT-003": Template(
        cause="The release has no texts in the language '{language}', only in: {known}.",
        fix="choose one of these, or declare labels in that language under `about` and run again.",
    ),
    "DP-REPORT-004": Template(
        cause="The report '{name}' would be in the folder of the release, whose manifest lists "
        "all files that may be there.",
        fix="write it to another folder.",
    ),
}
