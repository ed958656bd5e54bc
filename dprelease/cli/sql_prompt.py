"""Read statements at a terminal, with history and completion by prompt_toolkit."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from dprelease.cli.sql_shell import is_complete, label
from dprelease.query.sql_functions import FUNCTIONS
from dprelease.schema.table import Table

WORD = re.compile(r"[\w\\]+")
KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "BETWEEN", "CASE", "WHEN",
    "THEN", "ELSE", "JOIN", "USING", "WITH", "UNION", "EXPLAIN", "FILTER", "OVER", "PARTITION BY",
)  # fmt: skip
COMMANDS = ("\\plan", "\\budget", "\\tables", "\\help", "\\q")


class Names(Completer):
    """Completes names of tables, columns, functions, keywords and commands."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self.words = dict.fromkeys(COMMANDS, "command") | dict.fromkeys(KEYWORDS, "")
        self.words |= dict.fromkeys((*FUNCTIONS, "DP_INTERVAL_LOW", "DP_INTERVAL_HIGH"), "function")
        for name, table in tables.items():
            self.words |= {column: label(one) for column, one in table.columns.items()}
            self.words[name] = "public table" if table.public else "table"

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Yield the words that begin with the text before the cursor, in any case."""
        begin = document.get_word_before_cursor(pattern=WORD)
        for word, meaning in self.words.items():
            if begin and word.casefold().startswith(begin.casefold()):
                yield Completion(word, -len(begin), display_meta=meaning)


def prompt_reader(tables: Mapping[str, Table], history: Path | None) -> Callable[[], str]:
    """Return a function that reads a statement or a command.

    `history`: the file that holds earlier statements, which only its owner can read; None if they
    are held in memory only.
    """
    keys = KeyBindings()
    session: PromptSession[str] = PromptSession(
        "dprelease> ",
        multiline=True,
        prompt_continuation="      ...> ",
        completer=Names(tables),
        history=_history(history),
        key_bindings=keys,
    )

    @keys.add("enter", filter=Condition(lambda: is_complete(session.default_buffer.text)))
    def _(event: KeyPressEvent) -> None:
        """Accept a whole statement; before its end, the key begins a new line."""
        event.current_buffer.validate_and_handle()

    return session.prompt


def _history(path: Path | None) -> History:
    """Return the history in a file, or in memory."""
    if path is None:
        return InMemoryHistory()
    # Created here: the library would create a file that others can read.
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    return FileHistory(str(path))
