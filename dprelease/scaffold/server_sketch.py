"""A first table schema for a table of a PostgreSQL server, from its catalogue."""

from __future__ import annotations

from dprelease.errors import DataError, Place, RunState
from dprelease.exact.postgres.server_form import server_form
from dprelease.exact.reading.peek import peek_server
from dprelease.scaffold.proposals import HEAD as PEEKED_HEAD
from dprelease.scaffold.proposals import body_of
from dprelease.scaffold.server_proposals import DIGITS, notes_of, proposal_of
from dprelease.scaffold.sketch import (
    HEAD,
    lines_of,
    name_of,
    refuse_collated,
    refuse_twins,
    source_lines,
)

SERVER_HEAD = HEAD.replace("no row was looked at.", "the server's catalogue was read, and no row.")


def server_sketch(
    address: str,
    table: str | None,
    unit: str | None = None,
    *,
    peek: bool = False,
    state: RunState | None = None,
) -> str:
    """Return the text of a table schema for a table of a server.

    Of enumerations the labels are proposed, of numbers with declared digits the bounds that they
    have room for, of columns and domains with CHECK constraints what these leave, each marked for
    confirmation. `peek`: rows are read as well, and what is proposed from them, where the catalogue
    has no more to say than a type, is marked so; `state` is told.

    Raises
    ------
    DataError
        DP-DATA-010 without a table, 011 if `unit` is no column of it, 003 for names that are one
        but for their case, 013 if the values can't be read, 026 if the server compares `unit`
        otherwise than by its characters; as `server_form`.
    SchemaError
        As `server_form`.
    """
    place = Place(file="a PostgreSQL server")
    if not table:
        raise DataError("DP-DATA-010", place=place, path="the address")
    form = server_form(address, table)
    names = list(form.columns)
    if unit is not None and unit not in names:
        raise DataError("DP-DATA-011", place=place, column=unit, known=", ".join(names[:40]))
    refuse_collated(unit, "postgres", form.collations, place)
    called = name_of(table.rpartition(".")[2])
    refuse_twins(names, place, called)
    proposals = {name: proposal_of(form, name) for name in names}
    if peek:
        if state is not None:
            state.rows = True
        shown = {name: body_of(column) for name, column in peek_server(form).items()}
        kept = {name for name, body in proposals.items() if body and not body.endswith(DIGITS)}
        proposals |= {name: body for name, body in shown.items() if body and name not in kept}
    proposals.pop(unit or "", None)
    head = PEEKED_HEAD if peek else SERVER_HEAD
    lines = [head.rstrip(), f"table: {called}", *source_lines(address, None, {"table": table})]
    notes = {name: notes_of(form, name) for name in names}
    return lines_of(lines, list(form.columns.items()), unit, proposals, None, notes)
