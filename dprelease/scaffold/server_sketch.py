"""A first table schema for a table of a PostgreSQL server, from its catalogue."""

from __future__ import annotations

from fractions import Fraction

from dprelease.errors import DataError, Place, RunState
from dprelease.exact.postgres.server_form import ServerForm, server_form
from dprelease.exact.reading.peek import peek_server
from dprelease.numerics.lattice import LIMIT
from dprelease.numerics.rounding import plain_text
from dprelease.scaffold.proposals import HEAD as PEEKED_HEAD
from dprelease.scaffold.proposals import body_of
from dprelease.scaffold.sketch import HEAD, lines_of, name_of, quoted, refuse_twins, source_lines
from dprelease.schema.load import CONFIRM

SERVER_HEAD = HEAD.replace("no row was looked at.", "the server's catalogue was read, and no row.")
LIST = f"  {CONFIRM}: the list of its type. Is it public knowledge, and whole? Then remove this"
DIGITS = (
    f"  {CONFIRM}: what its type has room for; narrower bounds mean less noise. Then remove this"
)


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
    have room for, each marked for confirmation. `peek`: rows are read as well, and what is proposed
    from them is marked so; `state` is told.

    Raises
    ------
    DataError
        DP-DATA-010 without a table, 011 if `unit` is no column of it, 003 for names that are one
        but for their case, 013 if the values can't be read; as `server_form`.
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
    called = name_of(table.rpartition(".")[2])
    refuse_twins(names, place, called)
    proposals = _proposals(form)
    if peek:
        if state is not None:
            state.rows = True
        shown = {name: body_of(column) for name, column in peek_server(form).items()}
        proposals |= {name: body for name, body in shown.items() if body}
    proposals.pop(unit or "", None)
    head = PEEKED_HEAD if peek else SERVER_HEAD
    lines = [head.rstrip(), f"table: {called}", *source_lines(address, None, {"table": table})]
    return lines_of(lines, list(form.columns.items()), unit, proposals, None)


def _proposals(form: ServerForm) -> dict[str, str]:
    """Return what the catalogue proposes for columns, each marked for confirmation."""
    found = {}
    for name, labels in form.labels.items():
        if labels:
            values = ", ".join(map(quoted, labels))
            found[name] = f"{{type: category, values: [{values}]}}{LIST}"
    for name, (step, largest) in form.digits.items():
        if largest / step <= LIMIT:
            low, high, by = (plain_text(Fraction(value)) for value in (-largest, largest, step))
            found[name] = f"{{type: number, lower: {low}, upper: {high}, step: {by}}}{DIGITS}"
    return found
