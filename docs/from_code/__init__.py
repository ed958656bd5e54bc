"""Parts of the reference that follow from the code; a Sphinx extension puts them in, as Markdown.

A page names a part in a comment, `<!-- from the code: errors -->`, and gets its text in its place,
before it is parsed. Nothing is written to a file, so no part can be old.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from docs.from_code import (
    commands,
    error_codes,
    expression_functions,
    interface,
    mechanism_pages,
    models,
    sql_functions,
    sql_statements,
)
from dprelease.documents.json_schemas import FORMS

if TYPE_CHECKING:
    from sphinx.application import Sphinx

MARK = re.compile(r"<!-- from the code: (\w+) -->")

PARTS: dict[str, Callable[[], str]] = {
    **{name: partial(models.document, name) for name in FORMS},
    "commands": commands.pages,
    "mechanisms": mechanism_pages.pages,
    "errors": error_codes.pages,
    "functions": expression_functions.functions,
    "python": interface.pages,
    "sql_functions": sql_functions.functions,
    "sql_statements": sql_statements.pages,
}
"""Every part by the name that pages have for it."""


def written(text: str) -> str:
    """Return a page with its parts in place; raise KeyError for one that there is not."""
    return MARK.sub(lambda mark: PARTS[mark[1]](), text)


def _fill_in(_app: Sphinx, _name: str, source: list[str]) -> None:
    source[0] = written(source[0])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("source-read", _fill_in)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
