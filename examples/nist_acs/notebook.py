"""Writes the tutorial as a notebook with its outputs: `python -m examples.nist_acs.notebook`.

Cells are written here, run by Jupyter in a copy of the example, and kept with what they print. Only
noise differs when it is made again: cells have names of their own, and nothing tells when they were
run.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.notebooknode import NotebookNode

HERE = Path(__file__).parent
NOTEBOOK = HERE / "tutorial.ipynb"
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}
CELLS: tuple[tuple[str, str, str], ...] = (
    (
        "title",
        "markdown",
        """# Ten minutes with a census excerpt

Twenty areas of the United States, 27,253 persons of the American Community Survey 2019, as NIST has
curated them. We plan a release without looking at the data, publish it, read it, and check it as a
stranger would. The manual's tutorial tells the same on the command line.""",
    ),
    (
        "declared",
        "code",
        """import dprelease

release = dprelease.read_release("release.yaml")
print(release.title)
for name, query in release.declaration.spec.published_tables.items():
    print(f"{name:15} by {', '.join(query.group_by)}")""",
    ),
    (
        "plan-words",
        "markdown",
        """## What it will cost

`plan` opens no data. Errors are in the unit of each column, and those of medians in rows; a margin
holds the noise 95 times in 100.""",
    ),
    (
        "plan",
        "code",
        """import pandas as pd

plan = release.plan()
pd.DataFrame(
    {
        "column": f"{column.query.name}.{column.measurement.name}",
        "noise": column.mechanism.name,
        "margin": float(column.margin()),
    }
    for column in plan.columns
)""",
    ),
    (
        "run-words",
        "markdown",
        """## Publish

A run draws noise, and is charged once. Here it goes into a folder that is thrown away; another run
would have other numbers.""",
    ),
    (
        "run",
        "code",
        """from pathlib import Path

folder = release.run(output="out/notebook")
sorted(path.name for path in Path(folder).glob("*.parquet"))""",
    ),
    (
        "persons",
        "code",
        """persons = pd.read_parquet(folder / "persons.parquet")
one = persons[persons["PUMA"] == "24-01004"]
one.pivot(index="age_group", columns="SEX", values="persons").loc[one["age_group"].unique()]""",
    ),
    (
        "picture",
        "code",
        """%matplotlib inline
income = pd.read_parquet(folder / "income.parquet").sort_values("income_mean")
ends = [
    income["income_mean"] - income["income_mean_lower"],
    income["income_mean_upper"] - income["income_mean"],
]
axes = income.plot.scatter("income_mean", "PUMA", xerr=ends, figsize=(6, 4.5), s=12)
axes.set(xlabel="mean income, USD a year, with margins of 95 %", ylabel="")
axes.spines[["top", "right"]].set_visible(False)""",
    ),
    (
        "verify-words",
        "markdown",
        """## Check it, as a stranger would

`verify` makes the whole manifest again from its declaration, holds every file against its
digest, and prices the release a second time, without any data.""",
    ),
    (
        "verify",
        "code",
        """report = dprelease.verify(folder)
for line in report.checked:
    print("ok ", line)
report.ok""",
    ),
    (
        "session-words",
        "markdown",
        """## Questions, one at a time

A session has one budget for the people of a table; each answer is charged before it is drawn.""",
    ),
    (
        "session",
        "code",
        """session = dprelease.Session("schemas/persons.yaml", epsilon=1, delta=1e-9)
frame = pd.read_csv("data/national2019.csv", dtype=str)
frame.dp.use(session)
frame.dp.explain("mean", "AGEP", by="SEX", epsilon=0.1)""",
    ),
    ("ask", "code", """frame.dp.mean("AGEP", by="SEX", epsilon=0.1)"""),
    ("left", "code", """print(session.remaining)"""),
)
"""Name, kind and text of each cell."""


def written() -> NotebookNode:
    """Return the notebook without outputs."""
    book = nbformat.v4.new_notebook(metadata={"kernelspec": KERNEL})
    for name, kind, text in CELLS:
        make = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
        book.cells.append(make(text, id=name))
    return book


def executed() -> NotebookNode:
    """Return the notebook with what its cells print, run in a copy of the example.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        If a cell fails.
    """
    book = written()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "nist_acs"
        shutil.copytree(HERE, work, ignore=shutil.ignore_patterns("out", "*.ipynb", "*.py"))
        client = NotebookClient(
            book, timeout=300, kernel_name=KERNEL["name"], record_timing=False,
            resources={"metadata": {"path": str(work)}},
        )  # fmt: skip
        client.execute()
    book.metadata = nbformat.from_dict({"kernelspec": KERNEL})
    return book


if __name__ == "__main__":
    nbformat.write(executed(), Path(sys.argv[1]) if len(sys.argv) > 1 else NOTEBOOK)
