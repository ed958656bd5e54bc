"""Write a file that only its owner can read, outside all folders that are published."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from dprelease.errors import OutputError
from dprelease.profile.bounds import TriedLimit
from dprelease.profile.look import CONFIDENTIAL
from dprelease.schema.load import Declaration
from dprelease.system.files import reason_of

MANIFEST = "manifest.json"


@contextmanager
def private_file(path: Path, declaration: Declaration) -> Iterator[BinaryIO]:
    """Yield a new file with the permissions 0600, which is removed if the `with` block raises.

    Raises OutputError: DP-PROFILE-002 for a path in a release, or in the declared folder of this
    release; DP-OUTPUT-014 if the file exists, 002 if the operating system refuses to write it.
    """
    _refuse_published(path, declaration)
    refused: OutputError | None = None
    try:
        # The mode counts from the creation on: with a later chmod, another user could open the file
        # in between.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        refused = OutputError("DP-OUTPUT-014", name=path.name, remedy="remove the file first")
    except OSError as problem:
        reason = reason_of(problem)
        refused = OutputError("DP-OUTPUT-002", name=path.name, reason=reason, refused_by=problem)
    if refused is not None:
        raise refused
    done = False
    try:
        with os.fdopen(handle, "wb") as file:
            # The umask may have taken rights from the owner.
            os.fchmod(file.fileno(), 0o600)
            yield file
            done = True
    finally:
        if not done:
            with suppress(OSError):
                path.unlink()


def _refuse_published(path: Path, declaration: Declaration) -> None:
    """Raise DP-PROFILE-002 for a path inside a published folder."""
    published = (declaration.folder / declaration.spec.output).resolve()
    for folder in path.absolute().parent.resolve().joinpath("x").parents:
        # A folder with a manifest is a release, whichever release it belongs to.
        if folder == published or (folder / MANIFEST).exists():
            raise OutputError("DP-PROFILE-002", name=path.name, folder=folder.name)


# Draw the errors due to left-out rows and to noise, by tried contribution limit.
#
# The picture has one panel for each column and each kind of limit.

MOST_PANELS = 24
PANELS_PER_ROW = 2
LABEL_DISTANCE = 0.09
"""The minimum distance between labels of lines, as a share of the panel's height."""

CUT_COLOUR, NOISE_COLOUR, SUM_COLOUR = "#D55E00", "#0072B2", "#000000"
"""Colours that colour-blind readers can distinguish; the lines also have different markers."""


def tried_by_panel(bounds: Sequence[TriedLimit]) -> dict[tuple[str, str, str], list[TriedLimit]]:
    """Return the tried limits of each panel, by the names of query, column and limit."""
    found: dict[tuple[str, str], dict[str, list[TriedLimit]]] = {}
    for tried in bounds:
        by_bound = found.setdefault((tried.query, tried.column), {})
        by_bound.setdefault(tried.bound, []).append(tried)
    return {(*names, bound): tried for names, by in found.items() for bound, tried in by.items()}


def draw_limits(bounds: Sequence[TriedLimit], file: BinaryIO, name: str) -> None:
    """Draw the errors of a cell by tried limit into a PNG, SVG or PDF file.

    Raises OutputError: DP-OUTPUT-004 without Matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise OutputError("DP-OUTPUT-004", name=name) from None
    found = list(tried_by_panel(bounds).items())[:MOST_PANELS]
    rows = max(1, -(-len(found) // PANELS_PER_ROW))
    figure = Figure(figsize=(4.5 * PANELS_PER_ROW, 2.6 * rows + 0.6), layout="constrained")
    figure.suptitle(CONFIDENTIAL.split(".")[0] + ": exact numbers about the data", fontsize=10)
    axes = figure.subplots(rows, PANELS_PER_ROW, squeeze=False).ravel()
    for (names, tried), axis in zip(found, axes, strict=False):
        _draw_panel(axis, names, tried)
    for axis in axes[len(found) :]:
        axis.set_axis_off()
    figure.savefig(file, format=name.rpartition(".")[2].lower())


def _draw_panel(axis: Any, names: tuple[str, str, str], tried: Sequence[TriedLimit]) -> None:
    """Draw the errors of one column under all tried values of one contribution limit."""
    query, column, bound = names
    values = [one.value for one in tried]
    lines = (
        ("both, at most", SUM_COLOUR, "", [one.error for one in tried]),
        ("cut off", CUT_COLOUR, "s", [one.cut for one in tried]),
        ("noise", NOISE_COLOUR, "o", [one.noise for one in tried]),
    )
    ends: list[tuple[float, str, str]] = []
    for label, colour, mark, errors in lines:
        numbers = [float("nan") if error is None else error for error in errors]
        style = "--" if not mark else "-"
        axis.plot(values, numbers, style, color=colour, marker=mark, markersize=4, linewidth=1)
        known = [number for number in numbers if number == number]
        ends += [(known[-1], label, colour)] if known else []
    axis.set_ylim(
        0, axis.get_ylim()[1] * (1 + 2 * LABEL_DISTANCE)
    )  # leave space for labels above the highest point
    least = 0.0
    for end, label, colour in sorted(ends):  # stack the labels of lines that end together
        height = max(end, least)
        least = height + axis.get_ylim()[1] * LABEL_DISTANCE
        spot = (values[-1], height)
        axis.annotate(
            label, spot, (5, 0), textcoords="offset points", fontsize=7, color=colour, va="center"
        )
    for one in tried:
        if one.declared:
            axis.axvline(one.value, color="0.7", linewidth=0.8, zorder=0)
    axis.set_xscale("log")
    axis.set_xticks(values, [f"{value:,}" for value in values], fontsize=7)
    axis.minorticks_off()
    axis.margins(x=0.25)
    axis.tick_params(axis="y", labelsize=7)
    axis.set_title(f"{query}.{column}"[:40].replace("$", "\\$"), fontsize=8, loc="left")
    axis.set_xlabel(bound, fontsize=7)
    axis.set_ylabel(tried[0].unit[:20].replace("$", "\\$") or "error of a cell", fontsize=7)
    axis.spines[["top", "right"]].set_visible(False)
