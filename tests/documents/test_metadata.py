"""Metadata of published tables, for every kind of release, in the manifest and in the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

import dprelease
from dprelease.documents.metadata import Metadata
from dprelease.documents.release_metadata import (
    label_with_kind,
    metadata_of,
    metadata_of_messages,
    metadata_of_records,
)
from dprelease.planning.federated_plan import resolve_federated
from dprelease.planning.prepare import prepare
from dprelease.query.local_records import resolve_records
from dprelease.query.quality import CODES
from dprelease.release.run_options import with_party
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import Declaration, read_declaration
from dprelease.tables import formats
from tests.messages import write_with
from tests.replay import Keyed

BOTH = {"en": "Sex", "fr": "Sexe"}
TABLE: dict[str, Any] = {
    "table": "people",
    "source": "people.csv",
    "privacy_unit": {"id": "id", "max_groups": 2, "max_rows_per_group": 1},
    "columns": {
        "id": {"type": "integer"},
        "sex": {
            "type": "category",
            "values": {"F": {"en": "Female", "fr": "Féminin"}, "M": {"en": "Male", "fr": "Masculin"}},
            "label": BOTH, "description": "As registered.", "footnotes": "Since 2020.",
            "fill": "F", "others": "M",
        },
        "state": {"type": "category", "values": ["A", "B"], "label": "State"},
        "town": {"type": "category", "within": "state", "values": {"A": {"a1": "One", "a2": "Two"}, "B": ["b1"]}},
        "age": {"type": "integer", "lower": 0, "upper": 99, "unit": "years", "label": "Age", "labels": {"99": "99 and more"}, "fill": 0},
        "ward": {"type": "integer", "lower": 1, "upper": 3, "labels": {"2": "West"}},
        "adult": {"type": "boolean", "labels": {"true": "Adult"}},
        "band": {"cut": "age", "edges": [0, 18, 100], "labels": {"young": "Under 18", "old": "Others"}},
        "pay": {"type": "number", "lower": 0, "upper": 1000, "step": "0.5", "unit": "EUR", "decimals": 1, "fill": 0},
        "note": {"type": "text"},
        "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-01-03"},
    },
}  # fmt: skip
ABOUT = {
    "languages": ["en", "fr"], "publisher": "Office", "period": "2024", "title": {"en": "People", "fr": "Gens"},
    "notes": [{"en": "Rounded.", "fr": "Arrondi."}],
}  # fmt: skip
CENTRAL: dict[str, Any] = {
    "title": "People\nof 2024", "about": ABOUT, "tables": ["people.yaml"],
    "budget": {"epsilon": 5, "delta": "1e-6"}, "mechanism": "discrete_laplace",
    "queries": {
        "q": {
            "from": "people", "marginals": [[], ["sex", "adult"]], "label": {"en": "Pay", "fr": "Paie"},
            "description": "Yearly.", "footnotes": ["All."],
            "tables": {"q_total": {"label": "All pay", "footnotes": "Of all."}},
            "columns": {
                "pay": {"sum": "pay", "margin": True, "top_code": 900, "bottom_code": 10,
                        "labels": True, "label": {"en": "Sum", "fr": "Somme"}},
                "n": {"count": "*", "decimals": 0},
            },
        },
        "bands": {"from": "people", "group_by": "ward", "histogram": {"column": "age", "edges": [0, 50, 100]},
                  "columns": {"mean": {"mean": "pay"}, "part": {"ratio": ["pay", "age"]}}},
        "days": {"from": "people", "group_by": ["band", "day"], "columns": {"n": {"count": "*"}}},
        "chosen": {"from": "people", "group_by": "state",
                   "columns": {"sex": {"top_k": "sex", "k": 2, "label": "Sex"}, "mid": {"median": "age"}, "one": {"mode": "ward"}}},
        "found": {"from": "people", "group_by": ["note", "sex"], "private_keys": True, "columns": {"n": {"count": "*"}}},
    },
    "output": "out",
}  # fmt: skip
FAMILY: dict[str, Any] = {
    "title": "Areas", "tables": ["people.yaml"], "budget": {"rho": 2, "delta": "1e-9"},
    "mechanism": "discrete_gaussian",
    "queries": {
        "pop": {
            "from": "people", "hierarchy": ["state", "town"], "marginals": [[], ["adult"]], "label": "Population",
            "tables": {"pop_town": {"label": "Towns"}, "pop_invented": {"label": "Nobody"}},
            "consistent": {"non_negative": True, "publish": {"records": True}},
            "columns": {"n": {"count": "*", "margin": True, "label": "Persons", "decimals": 2}},
        }
    },
    "output": "out",
}  # fmt: skip
LOCAL: dict[str, Any] = {
    "title": "One by one", "about": {"languages": "fr"}, "mode": "local", "tables": ["people.yaml"],
    "budget": {"epsilon": 6, "neighbours": "replace"},
    "records": {"r": {"from": "people", "label": "Gens", "columns": {
        "sex": {}, "pay": {"label": "Paie"}, "age": {"mechanism": "randomized_response", "decimals": 0}}}},
    "output": "out",
}  # fmt: skip
PARTIES: dict[str, Any] = {
    "title": "All", "tables": ["people.yaml"], "federated": {"parties": 2, "honest": 2},
    "budget": {"epsilon": 1},
    "queries": {"q": {"from": "people", "group_by": "adult", "label": "Adults", "columns": {"n": {"count": "*", "label": "Persons"}}}},
    "output": "out",
}  # fmt: skip
KINDS = {"central": CENTRAL, "family": FAMILY, "local": LOCAL, "parties": PARTIES}


def folder_of(folder: Path, release: dict[str, Any]) -> Path:
    people = ["id,sex,state,town,age,ward,adult,pay,note,day"]
    people += [f"{i},{'FM'[i % 2]},A,a{i % 2 + 1},{i % 90},{i % 3 + 1},{'true' if i % 3 else 'false'},{i % 900},"
               f"n{i % 2},2024-01-0{i % 3 + 1}" for i in range(300)]  # fmt: skip
    (folder / "people.csv").write_text("\n".join(people))
    table = dict(TABLE)
    languages = release.get("about", {}).get("languages", "und")
    if release.get("mode") == "local":
        table.pop("privacy_unit")
    text = json.dumps(table)
    if languages != ["en", "fr"]:  # of every text of several languages the last one
        for several in ('{"en": "Sex", "fr": "Sexe"}', '{"en": "Female", "fr": "F\\u00e9minin"}',
                        '{"en": "Male", "fr": "Masculin"}'):  # fmt: skip
            text = text.replace(several, json.dumps(list(json.loads(several).values())[-1]))
    (folder / "people.yaml").write_text(text)
    (folder / "release.yaml").write_text(yaml.safe_dump(release, sort_keys=False))
    return folder / "release.yaml"


def declaration_of(folder: Path, kind: str) -> Declaration:
    declaration = read_declaration(folder_of(folder, KINDS[kind]))
    return with_party(declaration, 1) if kind == "parties" else declaration


def published_metadata(declaration: Declaration, rows: dict[str, int] | None = None) -> Metadata:
    if declaration.spec.mode == "local":
        return metadata_of_records(declaration, resolve_records(declaration), rows)
    if declaration.spec.federated is not None:
        return metadata_of_messages(declaration, resolve_federated(declaration))
    queries, plan = prepare(declaration)
    return metadata_of(declaration, queries, plan.families, rows)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for kind in KINDS:
        declaration = declaration_of(tmp_path_factory.mktemp(kind), kind)
        made[kind] = run(declaration, bits=Keyed(kind))
    return made


def roles(metadata: Metadata) -> dict[str, dict[str, tuple[str, str]]]:
    return {
        table.name: {column.name: (column.role.value, column.of) for column in table.columns}
        for table in metadata.tables
    }


@pytest.mark.share(0.5)
@pytest.mark.parametrize("kind", KINDS)
def test_manifest_files_and_metadata_agree(
    kind: str, published: dict[str, Path], tmp_path: Path
) -> None:
    """Of every table, every column, its role and its label; and the release verifies."""
    folder = published[kind]
    assert dprelease.verify(folder).ok
    record = json.loads((folder / "manifest.json").read_text())
    rows = {file["name"].removesuffix(".parquet"): file["rows"] for file in record["files"]}
    metadata = published_metadata(declaration_of(tmp_path, kind), rows)
    assert [table.file for table in metadata.tables] == [file["name"] for file in record["files"]]
    for table, file in zip(metadata.tables, record["files"], strict=True):
        schema = pq.read_schema(folder / file["name"])
        assert table.rows == file["rows"]
        assert table.label == file.get("label", {})
        assert list(table.footnotes) == file.get("footnotes", [])
        assert [column.name for column in table.columns] == schema.names
        for column, told, field in zip(table.columns, file["columns"], schema, strict=True):
            assert (column.name, column.kind, column.role.value) == (
                told["name"],
                told["type"],
                told["role"],
            )
            assert (column.of, column.unit) == (told.get("of", column.name), told.get("unit", ""))
            assert (column.decimals, dict(column.label)) == (
                told.get("decimals"),
                told.get("label", {}),
            )
            said = {name.decode(): text.decode() for name, text in field.metadata.items()}
            assert said.pop("role") == column.role.value
            assert said.pop("unit", "") == column.unit
            first, *others = column.label.items() or [("", "")]
            assert said.pop("label", "") == first[1]
            assert said == {f"label:{tag}": text for tag, text in others}
            assert str(field.type) == column.kind


def test_column_roles_of_every_kind(tmp_path: Path) -> None:
    found = {}
    for kind in KINDS:
        (tmp_path / kind).mkdir()
        found |= roles(published_metadata(declaration_of(tmp_path / kind, kind)))
    key, value = "key", "value"
    pay = {
        "pay": (value, "pay"), "pay_moe": ("margin", "pay"), "pay_label": ("label", "pay"),
        "pay_quality": ("quality", "pay"), "n": (value, "n"),
        "n_quality": ("quality", "n"),
    }  # fmt: skip
    assert found["q_total"] == pay
    assert found["q_sex_adult"] == {"sex": (key, "sex"), "adult": (key, "adult"), **pay}
    assert found["found"] == {
        "note": (key, "note"), "sex": (key, "sex"), "n": (value, "n"), "n_quality": ("quality", "n"),
    }  # fmt: skip
    middle = ("mid", "mid_lower", "mid_upper", "mid_quality")
    assert [*found["chosen"]] == ["state", "sex_1", "sex_2", *middle, "one"]
    assert found["chosen"]["sex_2"] == (value, "sex_2")
    assert found["measurements/pop_town"] == {"town": (key, "town"), "n": ("measurement", "n")}
    assert found["estimates/pop_town"] == {
        "town": (key, "town"), "n": (value, "n"), "n_se": ("standard_error", "n"), "n_moe": ("margin", "n"),
        "n_quality": ("quality", "n"),
    }  # fmt: skip
    assert found["tables/pop_adult"] == {
        "adult": (key, "adult"), "n": (value, "n"), "n_lower": ("lower", "n"), "n_upper": ("upper", "n"),
        "n_moe": ("margin", "n"), "n_adjusted": ("flag", "n"), "n_quality": ("quality", "n"),
    }  # fmt: skip
    assert found["records/pop_invented"] == {"town": (value, "town"), "adult": (value, "adult")}
    assert found["r"] == {"sex": (value, "sex"), "pay": (value, "pay"), "age": (value, "age")}
    assert found["q"] == {"adult": (key, "adult"), "n": ("measurement", "n")}


def test_texts_of_central_releases(tmp_path: Path) -> None:
    metadata = published_metadata(declaration_of(tmp_path, "central"))
    assert metadata.languages == ("en", "fr")
    about = metadata.about
    assert (about.title, about.heading("fr"), about.publisher) == (
        "People\\nof 2024",
        "Gens",
        "Office",
    )
    assert (about.period, about.notes) == (
        "2024-01-01/2024-12-31",
        ({"en": "Rounded.", "fr": "Arrondi."},),
    )
    tables = {table.name: table for table in metadata.tables}
    assert tables["q_total"].label == {"en": "All pay", "fr": "All pay"}
    assert tables["q_total"].footnotes == (
        {"en": "All.", "fr": "All."},
        {"en": "Of all.", "fr": "Of all."},
    )
    by_sex = tables["q_sex_adult"]
    assert by_sex.query == "q"
    assert by_sex.label == {"en": "Pay: Sex, adult", "fr": "Paie: Sexe, adult"}
    assert by_sex.description == {"en": "Yearly.", "fr": "Yearly."}
    assert by_sex.rows == 4
    assert tables["found"].rows is None
    sex, adult, pay, margin, words, quality, number, _ = by_sex.columns
    assert (sex.label, sex.description["fr"]) == (BOTH, "As registered.")
    assert sex.codes is not None
    assert [sex.codes.label(code, "fr") for code in sex.codes.values] == ["Féminin", "Masculin"]
    assert adult.codes is not None
    assert [adult.codes.label(code, "en") for code in adult.codes.values] == ["false", "Adult"]
    assert (pay.unit, pay.decimals, margin.unit, margin.decimals) == ("EUR", 1, "EUR", 1)
    assert pay.title("fr") == "Somme, au plus 2 x 1 lignes par id"
    assert {tag: text.split(", ")[:2] for tag, text in margin.label.items()} == {
        "en": ["Sum", "margin of error"],
        "fr": ["Somme", "marge d’erreur"],
    }
    assert words.title("en") == "Sum, in words"
    assert (words.unit, quality.unit, quality.decimals) == ("", "", None)
    assert (quality.title("en"), quality.title("fr")) == ("Sum, quality", "Somme, qualité")
    assert quality.codes is not None
    assert list(quality.codes.values) == list(CODES)
    assert "5 %" in quality.codes.label("A", "fr")
    assert (number.decimals, number.title("en")) == (0, "n, at most 2 x 1 per id")


def test_code_lists_of_every_kind(tmp_path: Path) -> None:
    tables = {
        table.name: table
        for table in published_metadata(declaration_of(tmp_path, "central")).tables
    }
    ward, ages, mean, *_, part, _, _, _ = tables["bands"].columns
    assert ward.codes is not None
    assert [ward.codes.label(code, "en") for code in ward.codes.values] == ["1", "West", "3"]
    assert ages.name == "age_band"
    assert ages.title("en") == "Age"  # of bands of a column, that of the column
    assert ages.codes is not None
    assert list(ages.codes.values) == ["0-49", "50-99"]
    assert (mean.decimals, part.decimals) == (1, None)
    band, day = tables["days"].keys
    assert band.codes is not None
    assert [band.codes.label(code, "fr") for code in band.codes.values] == ["Under 18", "Others"]
    assert day.codes is not None
    assert [day.codes.label(code, "fr") for code in day.codes.values][1:] == [
        "2024-01-02",
        "2024-01-03",
    ]
    assert all(
        column.codes is None for column in tables["found"].columns if column.role != "quality"
    )
    _, first, second, mid, *_, one = tables["chosen"].columns
    assert first.title("en").startswith("Sex 1, at most ")
    assert second.title("fr").startswith("Sex 2, au plus ")
    assert first.codes is not None
    assert first.codes.label("M", "fr") == "Masculin"
    assert (mid.unit, mid.codes) == ("years", None)
    assert one.codes is not None
    assert one.codes.label(2, "en") == "West"


def test_texts_of_families_records_and_parties(tmp_path: Path) -> None:
    made = {}
    for kind in ("family", "local", "parties"):
        (tmp_path / kind).mkdir()
        made[kind] = published_metadata(declaration_of(tmp_path / kind, kind))
    family, local, parties = made.values()
    assert family.languages == ("und",)
    tables = {table.name: table for table in family.tables}
    labels = {name: table.title("und") for name, table in tables.items()}
    assert labels["estimates/pop_state_adult"] == "Population: State, adult (estimates)"
    assert labels["tables/pop_town"] == "Towns"
    assert labels["estimates/pop_town"] == "Towns (estimates)"
    assert label_with_kind({"de": "Orte"}, "estimates/pop_town") == {"de": "Orte (Schätzwerte)"}
    assert labels["records/pop_invented"] == "Nobody (records)"
    assert [table.name for table in family.tables_for_readers] == [
        n for n in tables if not n.startswith("meas")
    ]
    town = tables["tables/pop_town"].columns[0]
    assert town.codes is not None
    assert [town.codes.label(code, "und") for code in town.codes.values] == ["One", "Two", "b1"]
    beside = tables["estimates/pop"] if "estimates/pop" in tables else tables["estimates/pop_total"]
    assert {column.title("und") for column in beside.columns} == {
        "Persons, at most 2 x 1 per id",
        "Persons, standard error",
        "Persons, quality",
        "Persons, margin of error, 95 % confidence about the count after contribution limits",
    }
    assert {column.decimals for column in beside.columns if column.kind != "string"} == {2}
    (records,) = local.tables
    assert (local.language, records.title("fr")) == ("fr", "Gens")
    assert [column.title("fr") for column in records.columns] == ["Sexe", "Paie", "Age"]
    assert [column.decimals for column in records.columns] == [None, 1, 0]
    assert records.columns[0].codes is not None
    assert list(parties.tables_for_readers) == []
    assert parties.tables[0].title("und") == "Adults"


@pytest.mark.parametrize("kind", ["central", "family", "local"])
def test_labels_do_not_change_results(
    kind: str, tmp_path: Path, published: dict[str, Path]
) -> None:
    """The same bits give the same rows with labels and without."""

    def without(value: Any) -> Any:
        if isinstance(value, list):
            return [without(part) for part in value]
        if not isinstance(value, dict):
            return value
        told = ("label", "description", "footnotes", "decimals", "about")
        return {
            k: without(v)
            for k, v in value.items()
            if k not in told and not (k == "tables" and isinstance(v, dict))
        }

    path = folder_of(tmp_path, KINDS[kind])
    table = without(json.loads((tmp_path / "people.yaml").read_text()))
    for column in table["columns"].values():
        if isinstance(column.get("values"), dict) and "within" not in column:
            column["values"] = [*column["values"]]
        column.pop("labels", None) if "cut" not in column else column.update(
            labels=[*column["labels"]]
        )
    (tmp_path / "people.yaml").write_text(json.dumps(table))
    path.write_text(yaml.safe_dump(without(KINDS[kind]), sort_keys=False))
    folder = run(read_declaration(path), bits=Keyed(kind))
    names = sorted(one.relative_to(folder) for one in folder.rglob("*.parquet"))
    assert names == sorted(
        one.relative_to(published[kind]) for one in published[kind].rglob("*.parquet")
    )
    for name in names:
        ours, theirs = (
            formats.PUBLISHED_FORMAT.read(one / name) for one in (folder, published[kind])
        )
        assert ours.equals(theirs), name
    assert dprelease.verify(folder).ok


def test_empty_title(tmp_path: Path) -> None:
    """Also beside what is said of the release as a whole, which leaves out what is empty."""
    edits = [("release.yaml", "title: People", "title: ''\nabout: {description: All.}")]
    write_with(tmp_path, edits)
    out = run(read_declaration(tmp_path / "release.yaml"))
    record = json.loads((out / "manifest.json").read_text())
    assert (record["title"], record["about"]["description"]) == ("", {"und": "All."})
    assert dprelease.verify(out).ok
