"""A Python model of dbt: the published table of a release, made from another model.

Copy it to the folder `models` of a dbt project with an adapter that runs Python models in this
process, such as dbt-duckdb. The release file declares `source: {frame: people}`.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

import dprelease


def model(dbt: Any, session: Any) -> pd.DataFrame:  # noqa: ARG001 - dbt passes both
    """Return the table `by_state` of the release; a second `dbt run` charges nothing."""
    dbt.config(materialized="table")
    people = dbt.ref("people").df()
    result = dprelease.run(
        dbt.config.get("release_file"), frames={"people": people}, if_published="skip"
    )
    return dprelease.PublishedRelease(result.folder).to_pandas("by_state")
