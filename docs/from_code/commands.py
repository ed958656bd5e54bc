"""Every command with its arguments and options, from the command line itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from docs.from_code.markdown import code, plain, table
from dprelease.cli import app


def pages() -> str:
    """Return a section for each command, in the order of `--help`."""
    root = typer.main.get_command(app)
    return "\n\n".join(_sections(root, "dprelease", 2))


def _sections(command: Any, name: str, depth: int) -> Iterator[str]:
    inner = getattr(command, "commands", {})
    if name != "dprelease":
        yield _section(command, name, depth)
        depth += 1
    for word, below in inner.items():
        yield from _sections(below, f"{name} {word}", depth)


def _section(command: Any, name: str, depth: int) -> str:
    parts = [f"{'#' * depth} {name}", plain(_paragraphs(command.help))]
    given = [param for param in command.params if param.name != "help"]
    usage = " ".join([name, *(_used(param) for param in given)])
    if not getattr(command, "commands", {}):
        parts.append(f"```text\n{usage}\n```")
    if given:
        rows = [(_names(param), plain(getattr(param, "help", None) or ""), _default(param))
                for param in given]  # fmt: skip
        parts.append(table(("parameter", "meaning", "default"), rows))
    return "\n\n".join(parts)


def _paragraphs(text: str | None) -> str:
    return (text or "").replace("\b", "").strip()


def _is_argument(param: Any) -> bool:
    return bool(param.param_type_name == "argument")


def _metavar(param: Any) -> str:
    return str(param.metavar or param.name.upper())


def _used(param: Any) -> str:
    if _is_argument(param):
        word = _metavar(param).strip("[]")
        word += "..." if param.nargs != 1 else ""
        return word if param.required else f"[{word}]"
    word = param.opts[0] if param.is_flag else f"{param.opts[0]} {_metavar(param)}"
    return word if param.required else f"[{word}]"


def _names(param: Any) -> str:
    if _is_argument(param):
        return code(_metavar(param))
    return ", ".join(code(name) for name in [*param.opts, *param.secondary_opts])


def _default(param: Any) -> str:
    if param.required:
        return "**needed**"
    default = param.default
    if callable(default) or default in (None, False, (), []):
        return ""
    return code(str(default))
