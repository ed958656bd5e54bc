"""Load export formats by name, on demand, and report why one can't be used."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata as installed

from dprelease.documents.metadata import Metadata
from dprelease.errors import DeclarationError, Place
from dprelease.exports.export import Export
from dprelease.exports.layout import refused_wide_keys
from dprelease.schema.release_parts.extension_names import FORMATS

RUNTIME: dict[str, Callable[[], str]] = {"zlib": lambda: zlib.ZLIB_RUNTIME_VERSION}
"""Versions of Python's libraries that affect bytes: compressed files depend on zlib."""


def export_format(name: str) -> Export:
    """Return the format of a listed name."""
    # Only the formats that a release names are imported.
    export: Export = importlib.import_module(FORMATS[name]).EXPORT
    return export


def packages_of(export: Export) -> tuple[str, ...]:
    """Return the packages that determine the bytes of a format; most formats have none."""
    packages: tuple[str, ...] = getattr(export, "packages", ())
    return packages


def versions_of(export: Export) -> dict[str, str]:
    """Return the versions of the installed packages that determine the bytes of a format."""
    versions = {}
    for package in packages_of(export):
        try:
            versions[package] = (
                RUNTIME[package]() if package in RUNTIME else installed.version(package)
            )
        except installed.PackageNotFoundError:
            continue
    return versions


def missing_packages(export: Export) -> list[str]:
    """Return the packages that a format needs and that are not installed."""
    there = versions_of(export)
    return [package for package in packages_of(export) if package not in there]


def findings(
    names: Sequence[str], metadata: Metadata, place: Place, wide: Place
) -> Iterator[DeclarationError]:
    """Yield the reasons why formats can't be written for a release, from declarations alone.

    `place`: the position of `formats` in the declaration; `wide`: the position of the layout.
    """
    for key, problem in refused_wide_keys(metadata):
        yield DeclarationError("DP-EXPORT-005", place=wide, key=key, problem=problem)
    for name in names:
        export = export_format(name)
        absent = missing_packages(export)
        if absent:
            packages = ", ".join(absent)
            yield DeclarationError(
                "DP-EXPORT-003", place=place, format=name, packages=packages, extra=export.extra
            )
            continue
        for one in export.problems(metadata):
            yield DeclarationError(
                "DP-EXPORT-002", place=place, format=name, problem=one.message.rstrip(".")
            )
