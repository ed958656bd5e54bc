"""Write the report as a file of the release, `report.html`, which `verify` can write again."""

from __future__ import annotations

from pathlib import Path

from dprelease.exports.export import Export, PublishedRelease

FILE = "report.html"


class HtmlReport(Export):
    """The format with the report on the release, as one HTML file.

    The report does not show whether the release is valid, because the report itself is a part of
    the release that is checked.
    """

    name = "report"
    extra = "report"
    packages = ("Jinja2",)

    def write(self, release: PublishedRelease, folder: Path) -> list[str]:
        """Write the report, and return the name of its file."""
        (folder / FILE).write_bytes(_report_bytes(release))
        return [FILE]


def _report_bytes(release: PublishedRelease) -> bytes:
    """Return the report on a release of tables or of single records."""
    # Imported late, because formats are listed without Jinja2, which is an extra.
    from dprelease.documents.local_manifest import RecordsManifest

    if isinstance(release.record, RecordsManifest):
        from dprelease.report.other_models.record_page import page_of_records

        return page_of_records(release)
    from dprelease.report.page import page_of

    return page_of(release)


EXPORT = HtmlReport()
