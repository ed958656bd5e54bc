"""Catalogue: tables that agree."""

from __future__ import annotations

from dprelease.errors.template import Template

ASKED: dict[str, Template] = {
    "DP-CONSIST-001": Template(
        cause="'{column}' can't be a level of areas here: {reason}.",
        fix="name categories from the largest areas to the smallest, each `within` the one before "
        "in the table's schema.",
    ),
    "DP-CONSIST-002": Template(
        cause="'{column}' can't be a key of tables that agree: {reason}.",
        fix="keep one of the two, or let areas within areas be levels of `hierarchy`: tables that "
        "agree are sums over keys that say nothing of each other.",
    ),
    "DP-CONSIST-003": Template(
        cause="`{key}` is not carried out for tables that agree.",
        fix="leave it out.",
    ),
    "DP-CONSIST-004": Template(
        cause="The tables are sums of {cells} finest cells; the limit is {limit}.",
        fix="ask for fewer attributes in one family of tables.",
    ),
}
