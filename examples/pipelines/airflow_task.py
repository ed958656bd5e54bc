"""Tasks of Airflow: publish a release for a month, then verify it.

In a DAG, decorate both functions with `airflow.sdk.task`, and call
`verify_release(publish_release("release.yaml", "{{ ds }}"))`. Their results are JSON, as XCom
needs.
"""

from __future__ import annotations

from typing import Any

import dprelease


def publish_release(release_file: str, ds: str) -> dict[str, Any]:
    """Publish the release of the month of a date such as 2026-01-31.

    A retry after a success finds the release published, and charges nothing. Any error raises, and
    its message says whether budget was spent.
    """
    result = dprelease.run(release_file, variables={"month": ds[:7]}, if_published="skip")
    return result.to_json()


def verify_release(published: dict[str, Any]) -> str:
    """Verify the release of `publish_release`, and return the digest of its manifest."""
    report = dprelease.verify(published["output"])
    dprelease.errors.raise_all(report.findings)
    return str(published["digest"])
