"""Draft a table schema with marked proposals from the data.

A bound that is the largest value in the data reveals something about the person who has this value,
and a list of keys from the data reveals who is in the data. With such bounds and lists, no release
keeps its guarantee. So every proposal has a mark, and a schema with marks is refused until its
owner has confirmed or replaced all proposals.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path

from dprelease.errors import RunState
from dprelease.exact.reading.peek import ColumnPeek, peek_at_file
from dprelease.numerics.rounding import plain_text
from dprelease.scaffold.sketch import odd_characters_text, sketch
from dprelease.scaffold.yaml_texts import quote_yaml
from dprelease.schema.load import PEEKED

WARNING = """\
WARNING: --peek READ THE VALUES. What it proposes is taken from the data and is not public.
  - Bounds and key lists from the data VOID THE GUARANTEE of every release that uses them.
  - Confirm each one from public knowledge (a code list, a tariff, the law), or replace it.
  - The schema is as confidential as the data until then; do not publish or commit it.
  - A schema that still has a PEEKED mark is refused by every command.
"""
HEAD = """\
# THIS FILE HOLDS VALUES FROM THE DATA: lines with the mark "PEEKED". It is as confidential as the
# data. Bounds and key lists that are taken from the data are not public knowledge: the largest
# income is some person's income, and a rare value is there because some person has it. A release
# with them does NOT keep its guarantee, whatever its manifest says.
#
# For every marked line: find the bound or the list in public knowledge (a code list, a
# tariff, the law). Write that down, or confirm that it says the same; then remove the mark
# with its words. A schema with a mark is refused.
"""
MARK = f"  {PEEKED}: from the data; confirm or replace from public knowledge, then remove this"


def peeked_sketch(
    source: Path,
    unit: str | None = None,
    folder: Path | None = None,
    state: RunState | None = None,
    table: str | None = None,
) -> str:
    """Return the text of a table schema with marked proposals from the values of a file.

    `state` records that rows are read. The other parameters are those of `sketch`.

    Raises
    ------
    DataError
        The errors of `sketch`; DP-DATA-013 if the values can't be read.
    """
    sketch(source, unit, folder, table=table)  # raises for names and types before any value is read
    if state is not None:
        # Before the first row is read, so that an error in between does not say that none was read.
        state.rows = True
    shown = {
        name: proposal_text(column)
        for name, column in peek_at_file(source, table).items()
        if name != unit
    }
    proposals = {name: body for name, body in shown.items() if body}
    return sketch(source, unit, folder, head=HEAD, proposals=proposals, table=table)


def proposal_text(column: ColumnPeek) -> str:
    """Return the text of a column in the schema; empty if there is no proposal from its values."""
    if column.values is not None:
        values = ", ".join(quote_yaml(value) for value in column.values)
        return f"{{type: category, values: [{values}]}}{MARK}{odd_characters_text(column.values)}"
    if column.lower is None or column.upper is None:
        return ""
    lower, upper = (
        end.isoformat() if isinstance(end, date) else plain_text(end)
        for end in (column.lower, column.upper)
    )
    codes = f", missing: [{', '.join(map(str, column.codes))}]" if column.codes else ""
    return f"{{type: {column.kind}, lower: {lower}, upper: {upper}{codes}}}{MARK}"
