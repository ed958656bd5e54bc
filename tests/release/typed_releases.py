"""A script that uses releases from Python: `tests.accessor.test_typed` has it checked by mypy --strict.

Lines that end in a comment "error: code" are mistakes, and have to be found.
"""

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, assert_type

import pandas as pd
import polars as pl

import dprelease
from dprelease.planning.plan import Plan
from dprelease.schema.typed import ReleaseMapping, TableMapping

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

typed: ReleaseMapping = {
    "title": "People",
    "tables": [
        {
            "table": "people",
            "source": pd.DataFrame(),
            "privacy_unit": {"id": "person", "max_groups": 1, "max_rows_per_group": 1},
            "columns": {
                "person": {"type": "integer"},
                "city": {"type": "category", "values": ["Bern", "Oslo"]},
                "pay": {"type": "number", "lower": 0, "upper": Decimal("9.5"), "step": "0.1"},
                "born": {"type": "date", "lower": date(1900, 1, 1), "upper": "2026-12-31"},
            },
        },
        Path("places.yaml"),
    ],
    "budget": {"epsilon": 1, "delta": 1e-9},
    "mechanism": {"name": "asymmetric_laplace", "k": 1.2},
    "queries": {
        "by_city": {
            "from": "people",
            "group_by": ["city"],
            "columns": {
                "n": {"count": "*", "margin": True, "label": {"de": "Personen"}},
                "rate": {"ratio": ["pay", "person"]},
                "high": {"quantile": {"of": "pay", "at": 0.9}},
            },
        }
    },
    "output": "out",
}
assert_type(dprelease.Release(typed).plan(), Plan)
table: TableMapping = {"table": "places", "public": True, "columns": {"name": {"type": "text"}}}

odd: ReleaseMapping = {"title": "t", "output": "o", "budgets": {}}  # error: typeddict-unknown-key
typed["queries"] = {"q": {"from": "people", "groupby": []}}  # error: typeddict-unknown-key
table["public"] = 3  # error: typeddict-item
result.digest = ""  # error: misc
release.run(overwrites=True)  # error: call-arg
dprelease.run("release.yaml", if_published="never")  # error: arg-type
dprelease.run("release.yaml", engine=3)  # error: arg-type
dprelease.check(5)  # error: arg-type
