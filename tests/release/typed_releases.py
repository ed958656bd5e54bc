"""A script that uses releases from Python: `test_python_releases.py` has it checked by mypy --strict.

Lines that end in a comment "error: code" are mistakes, and have to be found.
"""

from decimal import Decimal
from pathlib import Path
from typing import Any, assert_type

import pandas as pd
import polars as pl

import dprelease
from dprelease.planning.plan import Plan

declaration: dict[str, Any] = {}
release = dprelease.Release(declaration, folder="here", variables={"year": 2026})
assert_type(release.to_yaml(), str)
assert_type(release.plan(), Plan)
assert_type(release.run(overwrite=True, frames={"people": pd.DataFrame()}), Path)
assert_type(release.publish(if_published="skip").published, bool)

assert_type(dprelease.check("release.yaml").ok, bool)
assert_type(dprelease.plan(declaration), Plan)
result = dprelease.run("release.yaml", sources={"people": "people.csv"}, output=Path("out"))
assert_type(result.folder, Path)
assert_type(result.files, tuple[str, ...])
assert_type(result.digest, str)
if result.spent is not None:
    assert_type(result.spent.epsilon, Decimal)

published = dprelease.PublishedRelease(result.folder)
assert_type(published.tables, tuple[str, ...])
assert_type(published.to_pandas("by_city"), pd.DataFrame)
assert_type(published.to_polars(), pl.DataFrame)
assert_type(published.verify().ok, bool)
assert_type(dprelease.verify(result.folder).ok, bool)
assert_type(dprelease.export(result.folder, "csv").files, list[str])
assert_type(dprelease.write_report(result.folder), Path)
assert_type(dprelease.read_ledger("ledger.db")["bureau/people"].releases, int)
assert_type(dprelease.profile_release(release).to_json(), dict[str, Any])

result.digest = ""  # error: misc
release.run(overwrites=True)  # error: call-arg
dprelease.run("release.yaml", if_published="never")  # error: arg-type
dprelease.run("release.yaml", engine=3)  # error: arg-type
dprelease.check(5)  # error: arg-type
