"""The reference is made of the code, and leaves nothing out."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest
import typer

import dprelease
from docs import from_code
from docs.from_code import (
    commands,
    error_codes,
    expression_functions,
    interface,
    markdown,
    mechanism_pages,
    models,
)
from dprelease.accessor.frame import DpAccessor
from dprelease.cli import app
from dprelease.documents.json_schemas import FORMS, render_schema
from dprelease.errors import BudgetError
from dprelease.errors.catalogue import Template
from dprelease.mechanisms import registry
from dprelease.mechanisms.discrete_laplace import DiscreteLaplace
from dprelease.query.expressions.scalar import ALLOWED, CHOICES, FUNCTIONS
from tests.docs.fences import DOCS, PAGES

NOT_A_PAGE = {"defaults"}
"""Documents whose keys are those of another one."""


def test_every_part_has_one_page() -> None:
    """Once: a part that no page names would be made for nobody."""
    named = [name for page in PAGES for name in from_code.MARK.findall(page.read_text("utf-8"))]
    assert sorted(named) == sorted(set(from_code.PARTS) - NOT_A_PAGE)


def test_unknown_parts_are_refused() -> None:
    with pytest.raises(KeyError):
        from_code.written("<!-- from the code: nothing -->")
    with pytest.raises(ValueError, match="no document"):
        models.document("nothing")


@pytest.mark.share(0.5)
@pytest.mark.parametrize("name", sorted(set(FORMS) - NOT_A_PAGE))
def test_reference_has_every_key(name: str) -> None:
    """With the words of its model; the number of rows is that of the schema's keys."""
    text, whole = models.document(name), json.loads(render_schema(name))
    schemas = [whole, *whole.get("$defs", {}).values()]
    keys = [key for schema in schemas for key in schema.get("properties", {})]
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == sorted_by_form(whole)
    assert len(rows) == len(keys) > 10
    assert not re.search(r"\bNone\b|\$ref|anyOf", text)


def sorted_by_form(whole: dict) -> list[str]:  # type: ignore[type-arg]
    ordered = [whole, *(schema for _, schema in sorted(whole.get("$defs", {}).items()))]
    return [key for schema in ordered for key in schema.get("properties", {})]


def test_reference_has_every_code_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = error_codes.pages()
    told = re.findall(r"^### (DP-\w+-\d+)$", text, flags=re.MULTILINE)
    known = {code for kind in error_codes.kinds() for code in kind.templates}
    assert sorted(told) == sorted(known)
    assert len(known) > 150
    more = BudgetError.templates | {"DP-BUDGET-998": Template(cause="Why.", fix="what.")}
    monkeypatch.setattr(BudgetError, "templates", more)
    assert "### DP-BUDGET-998\n\nWhy.\n\n**Fix:** what." in error_codes.pages()


def test_reference_has_every_function() -> None:
    """Those of the messages, each of which the code accepts."""
    text = expression_functions.functions()
    listed = re.findall(r"^\| `(\w+)` \|", text, flags=re.MULTILINE)
    assert listed == ALLOWED.split(", ")
    accepted = {name for name, _, _ in FUNCTIONS.values()} | set(CHOICES.values())
    assert set(expression_functions.OTHERS) == set(listed) - accepted
    assert accepted <= set(listed)
    assert set(expression_functions.MEANINGS) <= accepted


def test_reference_has_every_command_and_option() -> None:
    text = commands.pages()
    for name, command in leaves(typer.main.get_command(app), "dprelease"):
        (section,) = re.findall(
            rf"^#+ {re.escape(name)}\n(.*?)(?=^#+ |\Z)", text, flags=re.DOTALL | re.MULTILINE
        )
        for param in command.params:
            if param.name != "help":
                words = param.opts if param.param_type_name == "option" else []
                assert all(f"`{word}`" in section for word in words), (name, param.name)
                assert param.help, (name, param.name)


def leaves(command, name: str):  # type: ignore[no-untyped-def]
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
        return
    for word, below in inner.items():
        yield from leaves(below, f"{name} {word}")


def test_reference_has_every_public_name() -> None:
    text = interface.pages()
    for name in dprelease.__all__:
        thing = getattr(dprelease, name)
        if inspect.isfunction(thing) or inspect.isclass(thing) or hasattr(thing, "cache_info"):
            assert f"{thing.__module__}.{thing.__qualname__}" in text, name
    assert interface.ACCESSOR.endswith(DpAccessor.__name__)


def test_reference_has_every_mechanism(monkeypatch: pytest.MonkeyPatch) -> None:
    """And other words of a mechanism make another table."""
    text = mechanism_pages.pages()
    for name in (*registry.names(), *registry.selection_names()):
        assert f"(mechanism-{name})=" in text
    monkeypatch.setattr(DiscreteLaplace, "use_case", "never")
    assert "| never |" in mechanism_pages.pages()


def test_markdown_characters_are_escaped() -> None:
    """But backticks do: what stands between them is code."""
    assert markdown.plain("a *b* <c> `*d*`") == r"a \*b\* \<c\> `*d*`"
    assert markdown.code("a`b") == "`` a`b ``"
    assert markdown.table(["x"], [["a|b\nc"]]).splitlines()[-1] == r"| a\|b c |"


def test_reference_pages_name_their_source() -> None:
    index = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^([\w-]+)$", index, flags=re.MULTILINE)
    there = {Path(page).stem for page in (DOCS / "reference").glob("*.md")} - {"index"}
    assert there <= set(listed)
