"""Every error code, from the catalogue: by its class, with its cause and its fix."""

from __future__ import annotations

import inspect

from docs.from_code.markdown import anchor, plain
from dprelease import errors
from dprelease.errors import DpReleaseError


def kinds() -> list[type[DpReleaseError]]:
    """Return the classes that have codes, as the tree lists them."""
    named = (getattr(errors, name) for name in errors.__all__)
    return [
        kind for kind in named
        if inspect.isclass(kind) and issubclass(kind, DpReleaseError) and kind.templates
    ]  # fmt: skip


def codes() -> dict[str, str]:
    """Return the section of every code."""
    return {
        code: _section(kind, code)
        for kind in kinds()
        for code in sorted(kind.templates)
    }  # fmt: skip


def _section(kind: type[DpReleaseError], code: str) -> str:
    template = kind.templates[code]
    cause, fix = (plain(_braces(text)) for text in (template.cause, template.fix))
    return f"{anchor(code.lower())}\n### {code}\n\n{cause}\n\n**Fix:** {fix}"


def _braces(text: str) -> str:
    """Return a template as a reader has it: doubled braces stand for one."""
    return text.replace("{{", "{").replace("}}", "}")


def pages() -> str:
    """Return a section for each class of errors, with all its codes."""
    parts, told = [], set[str]()
    for kind in kinds():
        (first, *_) = inspect.getdoc(kind).splitlines()  # type: ignore[union-attr]
        words = f"{plain(first)} Exit code {kind.exit_code}."
        parts.append(f"## {kind.__name__}\n\n{words}")
        for code in sorted(kind.templates):
            if code not in told:
                told.add(code)
                parts.append(_section(kind, code))
    return "\n\n".join(parts)
