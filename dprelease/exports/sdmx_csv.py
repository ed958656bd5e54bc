"""SDMX-CSV 2.0 with its structures as SDMX-ML 3.0."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dprelease.documents.metadata import Metadata
from dprelease.exports.export import Problem, PublishedRelease
from dprelease.exports.sdmx.identifiers import RESERVED, time_period
from dprelease.exports.sdmx.message import write_message
from dprelease.exports.sdmx.observations import write_observations
from dprelease.exports.sdmx.sdmx_cubes import cubes
from dprelease.exports.sdmx.structures import structures_of

STRUCTURE = "structure.xml"


class SdmxCsv:
    """A file of observations for each cube, and one message that describes all of them."""

    name: str = "sdmx-csv"
    extra: str | None = None

    def problems(self, metadata: Metadata) -> Iterator[Problem]:
        """Yield the keys whose names the standard reserves."""
        for table in metadata.read:
            for key in table.keys:
                if key.name.upper() in RESERVED:
                    yield Problem(
                        f"the name '{key.name}' means something else in SDMX; derive a key of "
                        "another name",
                        table.name,
                        key.name,
                    )

    def write(self, release: PublishedRelease, folder: Path) -> list[str]:
        """Write the structures, then the cubes; see `Export.write`."""
        (folder / self.name).mkdir()
        structures = structures_of(release.metadata)
        write_message(structures, folder / self.name / STRUCTURE)
        files = [f"{self.name}/{STRUCTURE}"]
        for cube in cubes(release.metadata, time_period(release.metadata.about.period)):
            file = f"{self.name}/{cube.id}.csv"
            flow = f"{structures.agency}:{cube.id}({structures.version})"
            write_observations(release, cube, flow, folder / file)
            files.append(file)
        return files


EXPORT = SdmxCsv()
