"""Catalogue: audits of a release, and releases that name one."""

from __future__ import annotations

from dprelease.errors.template import Template

ASKED: dict[str, Template] = {
    "DP-AUDIT-001": Template(
        cause="There is no query '{name}' in this release{nearest}.",
        fix="name a query, or one of its tables: {known}.",
    ),
}

WRITTEN: dict[str, Template] = {
    "DP-AUDIT-002": Template(
        cause="'{name}' already exists, and an audit replaces nothing.",
        fix="choose another folder with --output, or move this one.",
    ),
    "DP-AUDIT-008": Template(
        cause="The audit can't run the release with invented people: {problem}.",
        fix="correct this, and audit again; the runs write to the temporary folder that TMPDIR "
        "names.",
    ),
}

NAMED: dict[str, Template] = {
    "DP-AUDIT-003": Template(
        cause="'{name}' is not a result of an audit: {problem}.",
        fix="name the unchanged file audit.json that `dprelease audit --output` wrote.",
    ),
    "DP-AUDIT-004": Template(
        cause="'{name}' is the audit of another declaration: {problem}.",
        fix="audit the release as it is declared now, with the same variables: `dprelease audit`.",
    ),
    "DP-AUDIT-005": Template(
        cause="The audit in '{name}' {problem}.",
        fix="audit the whole release; a release can name an audit only if all of its checks "
        "passed.",
    ),
}

FOUND: dict[str, Template] = {
    "DP-AUDIT-006": Template(
        cause="The audit's check of {check} found that '{what}' does not hold: claimed is "
        "{claimed}, found was {seen}{pair}.",
        fix="do not publish; keep the folder that --output wrote, and report it.",
    ),
    "DP-AUDIT-007": Template(
        cause="The audit that the release names is not about this release: {problem}.",
        fix="do not use the release; ask its publisher.",
    ),
    "DP-AUDIT-009": Template(
        cause="'{name}' is not an unchanged result of an audit: {problem}.",
        fix="to verify a release, name its folder. To verify an audit, get its audit.json again "
        "from whoever audited the release.",
    ),
}
