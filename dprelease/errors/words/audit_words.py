"""Catalogue: audits of a release, and releases that name one."""

from __future__ import annotations

from dprelease.errors.template import Template

ASKED: dict[str, Template] = {
    "DP-AUDIT-001": Template(
        cause="There is no query '{name}' in this release{nearest}.",
        fix="name a query, or one of the tables that it stands for: {known}.",
    ),
}

WRITTEN: dict[str, Template] = {
    "DP-AUDIT-002": Template(
        cause="'{name}' is there already, and no audit replaces anything.",
        fix="choose another folder with --output, or move that one.",
    ),
    "DP-AUDIT-008": Template(
        cause="The release can't be run about invented people, so whole runs tell nothing: "
        "{problem}.",
        fix="mend that, and audit again; runs write to the temporary folder that TMPDIR names.",
    ),
}

NAMED: dict[str, Template] = {
    "DP-AUDIT-003": Template(
        cause="'{name}' is no outcome of an audit: {problem}.",
        fix="name the file audit.json that `dprelease audit --output` wrote, unchanged.",
    ),
    "DP-AUDIT-004": Template(
        cause="'{name}' is the audit of another declaration: {problem}.",
        fix="audit the release as it is now declared, with the same variables: `dprelease audit`.",
    ),
    "DP-AUDIT-005": Template(
        cause="The audit in '{name}' {problem}.",
        fix="audit the whole release; a release names an audit only if all of it held.",
    ),
}

FOUND: dict[str, Template] = {
    "DP-AUDIT-006": Template(
        cause="The audit's check of {check} found that '{what}' does not hold: claimed is "
        "{claimed}; seen: {seen}{pair}.",
        fix="do not publish; keep the folder that --output writes, and report it.",
    ),
    "DP-AUDIT-007": Template(
        cause="The release names an audit that is not one of it: {problem}.",
        fix="do not use the release; ask its publisher.",
    ),
    "DP-AUDIT-009": Template(
        cause="'{name}' is no outcome of an audit, as it was written: {problem}.",
        fix="a release is verified by its folder: name that. An audit you can't rely on: get its "
        "audit.json again from whoever audited the release.",
    ),
}
