"""Objects that show themselves as a short table, in a console and in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from html import escape

MOST_ROWS, WIDEST = 20, 100
"""Maximum number of rows of a summary, and of characters of a cell."""

Summary = tuple[str, Sequence[str], Sequence[Sequence[object]]]
"""A title, the names of the columns of a table, and its rows."""


class Summarized(ABC):
    """An object whose `repr` is a title and a table, which notebooks show in HTML."""

    __slots__ = ()

    @abstractmethod
    def _summary(self) -> Summary:
        """Return the title and the table."""

    def __repr__(self) -> str:
        title, heads, rows, more = _cells(self._summary())
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in ([heads, *rows] if any(heads) else rows)
        ]
        return "\n".join([f"<{title}", *(f"  {line}" for line in [*lines, *more]), ">"])

    def _repr_html_(self) -> str:
        title, heads, rows, more = _cells(self._summary())
        # Names of columns come from files of others, and a notebook would run their HTML.
        head = "".join(f"<th>{escape(cell)}</th>" for cell in heads if any(heads))
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
        )
        rest = "".join(f"<p>{escape(line)}</p>" for line in more)
        caption = f"<caption>{escape(title)}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _cells(summary: Summary) -> tuple[str, list[str], list[list[str]], list[str]]:
    """Return the texts of a summary, with a line for the rows that are not shown."""
    title, heads, rows = summary
    left = len(rows) - MOST_ROWS
    texts = [[_text(cell) for cell in row] for row in rows[:MOST_ROWS]]
    return _text(title), list(heads), texts, [f"... and {left:,} more"] if left > 0 else []


def _text(cell: object) -> str:
    """Return the text of a cell in one line, shortened; control characters are escaped."""
    text = str(cell)
    shown = text if len(text) <= WIDEST else f"{text[: WIDEST - 3]}..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
