"""Catalogue: consistent tables."""

from dprelease.errors.catalogue import Template

TEMPLATES: dict[str, Template] = {
    "DP-CONSIST-001": Template(
        cause="'{column}' can't be a level of the hierarchy: {reason}.",
        fix="name categories from the largest areas to the smallest; in the table's schema each "
        "must be declared `within` the one before.",
    ),
    "DP-CONSIST-002": Template(
        cause="'{column}' can't be a key of consistent tables: {reason}.",
        fix="use only one of the two keys, or make nested areas levels of `hierarchy`: the keys "
        "of consistent tables must be independent of each other.",
    ),
    "DP-CONSIST-003": Template(
        cause="`invariants` are true values, published outside the guarantee, and the release "
        "file does not acknowledge this.",
        fix="remove them, or add `acknowledge: {words}`.",
    ),
    "DP-CONSIST-006": Template(
        cause="With `invariants`, a guarantee with `neighbours: {neighbours}` promises nothing: "
        "the exact totals reveal whether a person is in the data.",
        fix="declare `neighbours: replace` in `budget`: the release then does not reveal which "
        "record a person has, among all records with the same values in the invariants.",
    ),
    "DP-CONSIST-007": Template(
        cause="A session can't publish `invariants`: exact values outside the guarantee must be "
        "recorded in a manifest.",
        fix="declare them in a release file, or remove them.",
    ),
    "DP-CONSIST-011": Template(
        cause="'{column}' can't be part of consistent tables: {reason}.",
        fix="use counts and sums under `consistent`, and publish the rest in a separate query.",
    ),
    "DP-CONSIST-012": Template(
        cause="The noise '{mechanism}' of '{column}' in '{table}' has no certified variance, "
        "which least squares need as weights.",
        fix="use discrete_gaussian, or another mechanism with light tails.",
    ),
    "DP-CONSIST-013": Template(
        cause="`{key}` can't be used for these tables: {reason}.",
        fix="correct it, or remove it.",
    ),
    "DP-CONSIST-014": Template(
        cause="The keys have {cells} combinations, too many for least squares in 64 bits.",
        fix="use fewer attributes in one family of tables.",
    ),
    "DP-CONSIST-015": Template(
        cause="The measured tables do not determine '{column}' in the table {table} of level "
        "'{level}'.",
        fix="measure the table at this level or a lower one, or stop publishing at a higher level.",
    ),
    "DP-CONSIST-004": Template(
        cause="The tables are sums of {cells} finest cells; the limit is {limit}.",
        fix="use fewer attributes in one family of tables.",
    ),
    "DP-CONSIST-030": Template(
        cause="'{query}' can't belong to the family '{family}': {reason}.",
        fix="let the queries of a family differ only in their keys (group_by, marginals, cube or "
        "rollup), or remove `family`.",
    ),
    "DP-CONSIST-020": Template(
        cause="The margin of '{column}' can't be as narrow as its target: with this budget it is "
        "at best {margin}.",
        fix="declare a wider margin or fewer targets, or {factor} times the rho, about {root} "
        "times the epsilon.",
    ),
    "DP-CONSIST-021": Template(
        cause="`targets` can't be used with a pure budget: its cost is not inversely proportional "
        "to variances.",
        fix="add a delta or a rho to the budget, or use weights instead.",
    ),
    "DP-CONSIST-022": Template(
        cause="`spend: least` can't tell how much budget is enough: {reason}.",
        fix="declare a `moe` under `targets` of consistent tables, and no epsilon or rho for "
        "single columns; or remove `spend`, so that the whole budget is spent.",
    ),
    "DP-CONSIST-023": Template(
        cause="The targets need about {needed}, but only {amount} may be spent: with that, the "
        "margin of '{column}' is at best {margin}.",
        fix="declare a wider margin or fewer targets, or a larger budget.",
    ),
}
