"""The changes that plant a fault in one function of the package, named by module and function."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import indent

ROOT = Path(__file__).parents[2]
PACKAGE = "dprelease"
RESULT = "result"
"""In a `returns`, the name of what the function returns without the fault."""

FORMS = (("returns",), ("before",), ("body",), ("replace", "by"))


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one function; exactly one of the four forms of `FORMS` is set.

    `function`: the module and the function, as in `aggregate:Sum.sensitivity`; packages may come
    before the module. `returns`: an expression that the function returns, of its arguments, local
    variables and `result`. `before`: statements that run first. `body`: all statements. `replace`
    and `by`: expressions, or statements; every place where the function has the first is changed.
    """

    function: str
    returns: str | None = None
    before: str | None = None
    body: str | None = None
    replace: str | None = None
    by: str | None = None

    def __post_init__(self) -> None:
        names = ("returns", "before", "body", "replace", "by")
        if tuple(name for name in names if getattr(self, name) is not None) not in FORMS:
            raise ValueError(f"'{self.function}': a change is one of {FORMS}")

    @property
    def path(self) -> Path:
        """Return the file of the function, from the root of the repository."""
        module = self.function.partition(":")[0]
        found = [path for path in _files() if f".{_dotted(path)}".endswith(f".{module}")]
        if len(found) != 1:
            raise LookupError(f"'{self.function}': {len(found)} modules have this name")
        return found[0]

    def changed_function(self, source: str) -> ast.FunctionDef:
        """Return the function with the change, of the source of its module."""
        function = deepcopy(_find(_tree(source), self.function))
        before = ast.dump(function)
        if self.body is not None:
            function.body = _statements(self.body)
        elif self.before is not None:
            function.body = [*_statements(self.before), *function.body]
        elif self.returns is not None:
            _Returns(self.returns).change(function)
        elif self.replace is not None and self.by is not None:
            _Replacement(self.replace, self.by).change(function)
        if ast.dump(function) == before:
            raise LookupError(f"'{self.function}' has nothing to change by {self}")
        return ast.fix_missing_locations(function)

    def apply(self, source: str) -> str:
        """Return the source of the module with the changed function."""
        function, lines = self.changed_function(source), source.splitlines(keepends=True)
        first = min(node.lineno for node in (function, *function.decorator_list))
        text = indent(ast.unparse(function), " " * function.col_offset)
        return "".join([*lines[: first - 1], text + "\n", *lines[function.end_lineno :]])


class _Body(ast.NodeTransformer):
    """Changes the statements of a function."""

    def change(self, function: ast.FunctionDef) -> None:
        changed: list[ast.stmt] = []
        for statement in function.body:
            one = self.visit(statement)
            changed += one if isinstance(one, list) else [one]
        function.body = changed


class _Returns(_Body):
    """Returns an expression in place of what each `return` of a function itself returns."""

    def __init__(self, returns: str) -> None:
        self.returned = f"return {returns}"

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        value = node.value or ast.Constant(None)
        return [ast.Assign([ast.Name(RESULT, ast.Store())], value), *_statements(self.returned)]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node


class _Replacement(_Body):
    """Replaces an expression or a statement, wherever it is."""

    def __init__(self, replace: str, by: str) -> None:
        self.old, self.by = ast.dump(_one(replace)), by

    def visit(self, node: ast.AST) -> ast.AST | list[ast.stmt]:
        if ast.dump(node) != self.old:
            return self.generic_visit(node)
        return _statements(self.by) if isinstance(node, ast.stmt) else _one(self.by)


def _statements(text: str) -> list[ast.stmt]:
    return ast.parse(text).body


def _one(text: str) -> ast.AST:
    """Return a single expression, or a single statement that is none."""
    (statement,) = _statements(text)
    return statement.value if isinstance(statement, ast.Expr) else statement


def _find(tree: ast.Module, function: str) -> ast.FunctionDef:
    within: Sequence[ast.AST] = [tree]
    for name in function.partition(":")[2].split("."):
        inside = [child for node in within for child in ast.iter_child_nodes(node)]
        within = [node for node in inside if getattr(node, "name", None) == name]
    if len(within) != 1 or not isinstance(within[0], ast.FunctionDef):
        raise LookupError(f"'{function}': {len(within)} functions have this name")
    return within[0]


@cache
def _tree(source: str) -> ast.Module:
    return ast.parse(source)


@cache
def _files() -> tuple[Path, ...]:
    return tuple(path.relative_to(ROOT) for path in sorted((ROOT / PACKAGE).rglob("*.py")))


def _dotted(path: Path) -> str:
    return ".".join(path.with_suffix("").parts)
