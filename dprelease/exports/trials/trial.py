"""Formats are tried before a release pays for what they would be written of.

All that a format is told is known beforehand but the values. So what fails on labels, names, types
or packages fails on blank tables as well, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dprelease.documents.metadata import Metadata
from dprelease.errors import Place
from dprelease.exports.trials.blank_tables import blank_release
from dprelease.exports.written import write_formats
from dprelease.system.undisturbed import temporary_folder


def try_formats(
    names: Sequence[str],
    record: Mapping[str, Any],
    metadata: Metadata,
    place: Place,
    folder: Path | None = None,
) -> None:
    """Write formats of blank tables, and throw all of it away.

    Parameters
    ----------
    record
        The manifest that the release would have, without what it says of formats and its digest.
    place
        Where the formats are asked for.
    folder
        What may be written into; the system's own for such files otherwise.

    Raises
    ------
    DeclarationError
        DP-EXPORT-008 for the first one that fails.
    OSError
        If the system does not take the files.
    """
    with temporary_folder(".dprelease-trial-", folder) as private:
        release = blank_release(record, metadata, private)
        write_formats(names, release, private, trial=place)
