"""Print the JSON Schemas of all documents of this version."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from dprelease.cli.reporting import AsJson, print_text, report_failures

Document = Literal[
    "release", "table", "defaults", "manifest", "local_manifest", "federated_manifest"
]


def show(
    document: Annotated[
        Document,
        typer.Argument(help="By hand: release, table, defaults.", show_default=False),
    ],
    as_json: AsJson = False,
) -> None:
    """Print the JSON Schema of a document: every key, for people and for editors."""
    with report_failures(as_json, prints_only=True):  # with --json, errors are JSON as well
        from dprelease.documents.json_schemas import render_schema

        print_text(render_schema(document), end=False)
