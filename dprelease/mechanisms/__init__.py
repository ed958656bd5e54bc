"""Noise mechanisms, one in each file; the first use of a class name imports its file."""

from __future__ import annotations

import importlib


def __getattr__(name: str) -> object:
    """Return a mechanism class such as `mechanisms.DiscreteLaplace`."""
    if name[0].isupper():
        registry = importlib.import_module("dprelease.mechanisms.registry")
        for module in (*registry.names(), *registry.RECORD_NAMES):
            if name == "".join(part.title() for part in module.split("_")):
                kind: object = registry.mechanism_class(module)
                return kind
    raise AttributeError(f"no mechanism class {name!r}")
