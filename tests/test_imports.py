"""What is loaded when, and what is public: by listing modules, not by time."""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from functools import cache
from pathlib import Path

import pytest

import dprelease
from tests import processes
from tests.benchmarks import workloads
from tests.release.build import write

ROOT = Path(__file__).parents[1]
HEAVY = {"pandas", "duckdb", "pyspark", "pyarrow", "dp_accounting"}


RUN = "from typer.testing import CliRunner; from dprelease.cli import app; r = CliRunner().invoke(app, {}); assert r.exit_code == 0, r.output"


@cache
def modules(*codes: str) -> list[set[str]]:
    """Return the full names of the modules that a fresh interpreter has after each of its codes."""
    report = "import sys, json; print('\\nmodules' + json.dumps(sorted(sys.modules)))"
    program = "\n".join(f"{code}\n{report}" for code in codes)
    done = processes.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    lines = (line.partition("modules") for line in done.stdout.splitlines())
    found = [set(json.loads(names)) for start, mark, names in lines if mark and not start]
    assert len(found) == len(codes)
    return found


def loaded(*codes: str) -> list[set[str]]:
    """Return the top-level modules that a fresh interpreter has after each of its codes."""
    return [{name.split(".")[0] for name in names} for names in modules(*codes)]


def test_import_help_and_plan_load_no_database(tmp_path: Path) -> None:
    nothing = HEAVY | {"numpy", "scipy", "pydantic", "flint", "yaml", "sqlglot", "cryptography"}
    release = str(write(tmp_path))
    imported, helped, planned, checked = loaded(
        "import dprelease",
        RUN.format(["--help"]),
        RUN.format(["plan", release]),
        RUN.format(["check", release]),
    )
    assert not imported & (nothing | {"typer"})
    assert not helped & nothing
    # Nor SciPy, which takes a third of what a plan does: this one has a delta and three laws.
    assert not planned & (HEAVY | {"scipy"})
    assert not checked & HEAVY


def test_plan_loads_no_entropy(tmp_path: Path) -> None:
    workloads.make(tmp_path, 500)
    (found,) = modules(RUN.format(["plan", str(tmp_path / "W1_count.yaml")]))
    unneeded = {"cryptography", "dp_accounting", "duckdb", "pyarrow", "scipy", "sqlite3"}
    assert not found & unneeded
    assert "dprelease.exact" not in found


def test_release_loads_only_needed_modules(tmp_path: Path) -> None:
    """A pure budget and discrete noise need neither SciPy nor loss distributions."""
    release = tmp_path / "W1_count.yaml"
    workloads.make(tmp_path, 500)
    (found,) = modules(RUN.format(["run", str(release)]))
    unneeded = {"pandas", "pyspark", "dp_accounting", "scipy", "sqlglot"}
    assert not {name.split(".")[0] for name in found} & unneeded
    families = ("dprelease.consistency", "dprelease.postprocess.consistent.")
    record = (
        "dprelease.postprocess.consistent.consistency_record"  # a part of each manifest's model
    )
    assert not [name for name in found - {record} if name.startswith(families)]
    # Nor what only other releases do: with ids, ledgers, choices, single records, many cells.
    assert not found & {
        "concurrent.futures",
        "dprelease.exact.bounding.bounding_in_memory",
        "dprelease.exact.results.true_records",
        "dprelease.ledger.ledger",
        "dprelease.mechanisms.selection.exponential",
        "dprelease.query.local_records",
        "dprelease.noise.selections",
        "dprelease.documents.local_manifest",
        "dprelease.planning.federated_plan",
        "dprelease.planning.local_plan",
        "dprelease.verification.second_opinion",
        "dprelease.statements.record_statements",
        "pyarrow.compute",
        "sqlite3",
    }


def test_release_of_files_does_not_load_pandas(tmp_path: Path) -> None:
    """Arrow's ways to NumPy do, which takes half as long as everything else that is loaded."""
    workloads.make(tmp_path, 50_000)  # some people have more rows in a group than are kept
    releases = sorted(tmp_path.glob("U[0-9]_*.yaml"))  # of the types that users have
    runs = "\n".join(RUN.format(["run", str(release)]) for release in releases)
    assert len(releases) == 8
    (found,) = loaded(runs)
    assert "pandas" not in found


@pytest.mark.parametrize(
    ("order", "first_use"),
    [("import pandas, dprelease", "Session"), ("import dprelease, pandas", "dp")],
)
def test_first_use_of_a_session_registers_the_accessor(order: str, first_use: str) -> None:
    """Until then, what is loaded with pandas is next to nothing."""
    use = f"dprelease.{first_use}; assert 'count' in dir(pandas.DataFrame().dp)"
    before, after = modules(order, use)
    more = before.difference(*modules("import pandas"))
    assert {name.split(".")[0] for name in more} == {"dprelease"}
    assert len(more) <= 4
    assert "dprelease.accessor.frame" in after


def test_public_names() -> None:
    for name in dprelease.__all__:
        assert getattr(dprelease, name) is not None
    assert dir(dprelease) == dprelease.__all__
    with pytest.raises(AttributeError):
        dprelease.nothing  # noqa: B018
    assert dprelease.mechanisms.DiscreteLaplace(1.0).name == "discrete_laplace"
    with pytest.raises(AttributeError):
        dprelease.mechanisms.Nothing  # noqa: B018


def test_every_module_imports_and_is_documented() -> None:
    for module in pkgutil.walk_packages(dprelease.__path__, "dprelease."):
        if module.name != "dprelease.__main__":
            assert importlib.import_module(module.name).__doc__
