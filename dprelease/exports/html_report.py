"""The report as a file of the release itself: `report.html`, remade by whoever verifies it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dprelease.documents.metadata import Metadata
from dprelease.exports.export import Problem, PublishedRelease

FILE = "report.html"


class HtmlReport:
    """See `Export`. It tells no outcome of checks, which would have to tell of itself."""

    name = "report"
    extra: str | None = "report"
    packages = ("Jinja2", "matplotlib")

    def problems(self, metadata: Metadata) -> Iterator[Problem]:
        """Yield nothing: every release of tables has a report."""
        yield from ()

    def write(self, release: PublishedRelease, folder: Path) -> list[str]:
        """See `Export.write`."""
        from dprelease.report.page import page_of

        (folder / FILE).write_bytes(page_of(release))
        return [FILE]


EXPORT = HtmlReport()
