"""The table of mechanisms, and the docstrings of their modules."""

from __future__ import annotations

import importlib
import inspect

from docs.from_code.markdown import anchor, plain, table
from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.randomizer import Randomizer


def pages() -> str:
    """Return the table, then a section for every mechanism, for noise and for selection."""
    kinds = [registry.get(name) for name in registry.names()]
    sections = [_section(kind) for kind in kinds]
    chosen = [_section(registry.selection_class(name)) for name in registry.selection_names()]
    heads = [mechanisms(), "## Noise", *sections, "## Selections among candidates", *chosen]
    return "\n\n".join(heads)


def mechanisms() -> str:
    """Return the table of mechanisms; `noise` is the part of a summary before the guarantee."""
    heads = ("name", "noise", "guarantee", "when to use", "parameters")
    return table(heads, [_row(registry.get(name)) for name in registry.names()])


def _row(kind: type[Mechanism]) -> tuple[str, ...]:
    noise, _, _ = kind.summary.partition(";")
    guarantee = "pure" if kind.pure else "approximate"
    bounded = ", bounded" if kind.has_bounded_noise else ""
    shapes = ", ".join(f"`{shape.name}`" for shape in kind.shape_parameters)
    name = f"[`{kind.name}`](#mechanism-{kind.name})"
    return name, plain(noise), guarantee + bounded, plain(kind.use_case), shapes


def _section(kind: type[Randomizer]) -> str:
    text = inspect.getdoc(importlib.import_module(kind.__module__)) or ""
    return f"{anchor(f'mechanism-{kind.name}')}\n### {kind.name}\n\n```text\n{text}\n```"
