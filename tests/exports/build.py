"""Releases to export: one with every kind of column, and tables made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from dprelease.documents.file_records import TableRecord
from dprelease.documents.manifest import Manifest
from dprelease.documents.metadata import (
    About,
    Code,
    CodeList,
    ColumnMetadata,
    Metadata,
    Role,
    TableMetadata,
)
from dprelease.documents.release_manifest import (
    DeclarationRecord,
    GuaranteeRecord,
    PosteriorRecord,
    ReadingRecord,
    Tool,
    UnitRecord,
)
from dprelease.exports.export import PublishedRelease
from dprelease.query.quality import CODES
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.tables.formats import table_file_name, write_table
from tests.replay import Keyed

CITIES = ["Bern", "Oslo, Norway", '=HYPERLINK("x")']
SCHEMA = """\
table: people
source: people.csv
privacy_unit: {id: person, max_groups: 2, max_rows_per_group: 2}
columns:
  person: {type: integer}
  city: {type: category, values: [Bern, "Oslo, Norway", '=HYPERLINK("x")']}
  sex: {type: category, values: [F, M]}
  member: {type: boolean}
  born: {type: date, lower: 2000-01-30, upper: 2000-02-02}
  age: {type: integer, lower: 0, upper: 5}
  word: {type: text}
  pay: {type: number, lower: 0, upper: 5000, step: 0.5}
"""
RELEASE = """\
title: "People: <cities> & sexes"
tables: [people.yaml]
budget: {epsilon: 4, delta: 1e-6}
mechanism: discrete_gaussian
queries:
  cells:
    from: people
    marginals: [[city, sex], [city], [sex], []]
    columns:
      people: {count_distinct: person, margin: true, suppress_below: 8}
      pay: {sum: pay, mechanism: laplace, margin: true}
      pay_mean: {mean: pay, margin: true}
  days:
    from: people
    group_by: [born, member, age]
    columns:
      rows: {count: "*"}
      usual: {mode: city}
output: out
"""
WORDS_TOO = """\
  words:
    from: people
    group_by: [word]
    private_keys: true
    columns:
      rows: {count: "*"}
output: out
"""
"""A table whose number of rows is noised, in place of the end of the release."""

ALL = "formats: [parquet, csv, excel, ods, json-stat, px, datapackage]\n"
WORDS = ["plain", "a,b", 'say "x"', "-1", "=1+1", "né", " space "]


def rows() -> list[str]:
    """Return rows of people, with words that are hard to write."""
    made = []
    for i in range(400):
        city = '"' + CITIES[i % 3].replace('"', '""') + '"'
        word = '"' + WORDS[i % len(WORDS)].replace('"', '""') + '"'
        born = ("2000-01-30", "2000-01-31", "2000-02-01", "2000-02-02")[i % 4]
        member = ("true", "false")[i % 5 == 0]
        made.append(f"{i},{city},{'FM'[i % 2]},{member},{born},{i % 6},{word},{i * 13 % 4000}.25\n")
    return made


def write(folder: Path, more: str = ALL, release: str = RELEASE) -> Path:
    """Return the release file of the release, written into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    head = "person,city,sex,member,born,age,word,pay\n"
    (folder / "people.csv").write_text(head + "".join(rows()), encoding="utf-8", newline="")
    (folder / "people.yaml").write_text(SCHEMA)
    (folder / "release.yaml").write_text(release + more)
    return folder / "release.yaml"


def publish(folder: Path, more: str = ALL, key: str = "exports") -> Path:
    """Return the folder of the release, drawn from bits that every call repeats."""
    return run(read_declaration(write(folder, more)), bits=Keyed(key))


def column(
    name: str, kind: pa.DataType, role: Role = Role.VALUE, of: str = "", **more: Any
) -> ColumnMetadata:
    """Return the metadata of a column of a table made by hand."""
    return ColumnMetadata(name, str(kind), role, of or name, **more)


def key(
    name: str, kind: pa.DataType, values: Sequence[Code] | None, **labels: Any
) -> ColumnMetadata:
    """Return the metadata of a key with declared values."""
    codes = None if values is None else CodeList(tuple(values), labels.get("labels", {}))
    return column(name, kind, Role.KEY, codes=codes, label=labels.get("label", {}))


def handmade_release(
    folder: Path,
    tables: Sequence[tuple[str, pa.Table, Sequence[ColumnMetadata]]],
    wide: Sequence[str] = (),
    **about: Any,
) -> PublishedRelease:
    """Return a release whose tables were made by hand, and written as all are."""
    files, told = [], []
    for name, table, columns in tables:
        path = folder / table_file_name(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_table(table, path)
        files.append(
            TableRecord(
                name=table_file_name(name),
                query=name,
                rows=len(table),
                columns=[],
                post_processing={},
                computed={},
                sha256="0" * 64,
            )
        )
        query = name.partition("_")[0]
        told.append(TableMetadata(name, table_file_name(name), query, tuple(columns), len(table)))
    languages = about.pop("languages", ("en",))
    metadata = Metadata(
        About(about.pop("title", "Tables"), **about), languages, tuple(told), tuple(wide)
    )
    return PublishedRelease(folder, Manifest.model_construct(files=files), metadata)


HOSTILE = '<script>alert(1)</script>"; =HYPERLINK("http://x") -- \u202eevil & $$1$$ [a](b)'

OTHER = "Été, « x » | ;"
"""A text in a second language."""

DECLARED = {
    "release.yaml": (
        "title: T\ntables: [people.yaml]\nbudget: {epsilon: 1}\n"
        "queries: {pay: {from: people, columns: {n: {count: '*'}}}}\noutput: out\n"
    ),
    "people.yaml": "table: people\nsource: people.csv\ncolumns: {k: {type: boolean}}\n",
}
"""Texts of a declaration, for exports that read it."""


def release_with_all_metadata(folder: Path, wide: Sequence[str] = ()) -> PublishedRelease:
    """Return a release with all possible metadata, in two languages, with hostile texts."""
    both = {"en": HOSTILE, "fr": OTHER}
    kinds = (pa.string(), pa.int64(), pa.decimal128(38, 2), pa.float64(), pa.bool_(), pa.string())
    table = pa.table(
        {
            "sex": pa.array(["F", "F", "=M", "=M"], kinds[0]),
            "age_group": pa.array([0, 15, 0, 15], kinds[1]),
            "pay": pa.array([1, None, -3, 4], pa.int64()).cast(pa.decimal128(19, 0)).cast(kinds[2]),
            "pay_moe": pa.array([0.5, 1.5, 2.5, None], kinds[3]),
            "pay_new": pa.array([True, False, False, True], kinds[4]),
            "pay_label": pa.array(["1 or less", "+1", "@SUM(A1)", "\t-1"], kinds[5]),
            "pay_quality": pa.array(["D", "few_people", "A", "at_bound"], kinds[5]),
        }
    )
    beside = {"label": both, "description": both, "footnotes": (both, {"fr": "Seul"})}
    columns = (
        key("sex", kinds[0], ["F", "=M"], labels={"F": both, "=M": both}, label=both),
        key("age_group", kinds[1], [0, 15], labels={0: {"en": "0 to 14", "fr": "0 à 14"}}),
        column("pay", kinds[2], decimals=1, unit="€", **beside),
        column("pay_moe", kinds[3], Role.MARGIN, "pay", decimals=2, unit="€"),
        column("pay_new", kinds[4], Role.FLAG, "pay"),
        column("pay_label", kinds[5], Role.LABEL, "pay"),
        replace(
            column("pay_quality", kinds[5], Role.QUALITY, "pay"),
            codes=CodeList(CODES, dict.fromkeys(CODES, both)),
        ),
    )
    made = handmade_release(
        folder,
        [("tables/pay", table, columns)],
        wide,
        title=HOSTILE,
        publisher="Office & Söhne",
        contact="desk@office.example",
        licence="https://licence.example/by",
        period="2025-01-01/2025-12-31",
        area="Land <x>",
        version="1.2",
        replaces="urn:1.1",
        methodology="https://office.example/method",
        description=both,
        notes=(both, {"fr": "Note"}),
        languages=("en", "fr"),
    )
    told = made.metadata.tables[0]
    told = replace(told, label=both, description=both, footnotes=(both,))
    unit = UnitRecord.model_construct(
        table="people",
        query="pay",
        id=HOSTILE,
        max_groups=3,
        max_rows_per_group=2,
        words="The unit is each row.",
    )
    guarantee = GuaranteeRecord.model_construct(
        neighbours="add_remove", epsilon="1.0", delta="0", rho=None, invariants=[HOSTILE]
    )
    record = Manifest.model_construct(
        files=made.record.files,
        dp_variant="pure",
        tool=Tool(name="dprelease", version="1", dependencies={}),
        privacy_unit=[unit] * 2,
        privacy_parameters=guarantee.parameters,
        guarantee=guarantee,
        reading=ReadingRecord(
            least_total_error=0.5,
            least_total_error_words="Whoever guesses errs.",
            largest_posterior=[PosteriorRecord(prior=0.5, posterior=0.7311)],
            largest_posterior_words="Beliefs rise.",
        ),
        declaration=DeclarationRecord(release="release.yaml", texts=DECLARED, sha256={}),
        treatments=[],
        unprotected_quantities=["Time."],
        post_processing=["Rounding."],
    )
    return replace(made, record=record, metadata=replace(made.metadata, tables=(told,)))
