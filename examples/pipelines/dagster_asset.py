"""An asset of Dagster: a published release with its privacy cost as metadata.

In a project, decorate the function with `dagster.asset`; `people` is then the upstream asset, which
returns a frame.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

import dprelease

RELEASE = "release.yaml"


def published_by_state(context: Any, people: pd.DataFrame) -> pd.DataFrame:
    """Return the published table, and add digest, folder and epsilon as metadata of the asset."""
    result = dprelease.run(RELEASE, frames={"people": people}, if_published="skip")
    spent = result.spent
    context.add_output_metadata(
        {
            "folder": str(result.folder),
            "digest": result.digest,
            "epsilon": None if spent is None else float(spent.epsilon),
            "newly_published": result.published,
        }
    )
    return dprelease.PublishedRelease(result.folder).to_pandas("by_state")
