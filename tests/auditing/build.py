"""Releases to audit: every aggregate, privacy unit, neighbour relation and mode, few rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from dprelease.schema.load import Declaration, read_declaration

COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "sex": {"type": "category", "values": ["f", "m", "x"], "others": "x", "missing": "q"},
    "state": {"type": "category", "values": ["A", "B"]},
    "town": {"type": "category", "within": "state", "values": {"A": ["a1", "a2"], "B": ["b1", "b2"]}},
    "code": {"type": "integer", "lower": 1, "upper": 4},
    "age": {"type": "integer", "lower": 0, "upper": 99, "step": 3, "fill": 30},
    "gain": {"type": "integer", "lower": -20, "upper": 50, "missing": [7]},
    "pay": {"type": "number", "lower": "-2.5", "upper": 100, "step": "0.25"},
    "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-01-04"},
    "flag": {"type": "boolean", "fill": "false"},
    "place": {"type": "text"},
    "adult": {"cut": "age", "edges": [0, 18, 100]},
    "more": {"type": "number", "lower": 0, "upper": 200, "step": 1, "expression": "pay * 2 + age"},
}  # fmt: skip
AREAS = {
    "table": "areas",
    "public": True,
    "columns": {
        "code": {"type": "integer", "lower": 1, "upper": 4},
        "kind": {"type": "category", "values": ["wet", "dry"]},
    },
}
VISITS: dict[str, Any] = {
    "table": "visits",
    "privacy_unit": {"id": "id", "max_groups": 2, "max_rows_per_group": 2},
    "columns": {
        "id": {"type": "integer"},
        "cost": {"type": "integer", "lower": 0, "upper": 9},
        "ward": {"type": "category", "values": ["w1", "w2"]},
    },
}
ROWS: dict[str, Any] = {}
IDS: dict[str, Any] = {"id": "id", "max_groups": 2, "max_rows_per_group": 3}
SINGLE: dict[str, Any] = {"id": "id", "max_groups": 3, "max_rows_per_group": 1}
UNITS = {"rows": ROWS, "ids": IDS, "single": SINGLE}

VECTORS: dict[str, Any] = {
    "n": {"count": "*"}, "known": {"count": "pay"}, "total": {"sum": "gain"}, "old": {"sum": "age"},
    "real": {"sum": "pay"}, "kinds": {"count_distinct": "sex"}, "computed": {"sum": "more"},
}  # fmt: skip
FORMS: dict[str, Any] = {
    "mean": {"mean": "pay"}, "spread": {"variance": "gain"}, "rate": {"ratio": ["gain", "age"]},
    "heavy": {"weighted_mean": {"of": "gain", "weight": "age"}}, "size": {"effective_size": "age"},
    "line": {"slope": {"of": "gain", "on": "pay", "controls": ["age"]}}, "together": {"covariance": ["gain", "pay"]},
}  # fmt: skip
CHOICES: dict[str, Any] = {
    "middle": {"median": "gain"}, "high": {"quantile": {"of": "pay", "at": "0.9"}},
    "least": {"min": "age"}, "often": {"top_k": "sex", "k": 2}, "most": {"mode": "flag"},
}  # fmt: skip
TREES: dict[str, Any] = {
    f"q{i}": {"quantile": {"of": "gain", "at": f"0.{i}"}} for i in range(1, 10)
}
QUERIES: dict[str, dict[str, Any]] = {
    "vectors": {"q": {"from": "people", "group_by": ["sex", "town"], "columns": VECTORS}},
    "total": {"q": {"from": "people", "columns": {**VECTORS, **FORMS}}},
    "forms": {"q": {"from": "people", "group_by": ["adult", "flag"], "columns": FORMS}},
    "choices": {"q": {"from": "people", "group_by": ["code"], "columns": CHOICES}},
    "where": {
        "q": {
            "from": "people", "group_by": ["day"], "where": "pay > 12.5 AND NOT flag AND place <> 'here'",
            "columns": {"n": {"count": "*"}, "real": {"sum": "pay"}},
        }
    },
    "marginals": {
        "q": {
            "from": "people", "marginals": [[], ["sex"], ["sex", "flag"]],
            "histogram": {"column": "gain", "edges": [-20, 0, 51], "closed": "left"},
            "columns": {"n": {"count": "*"}, "pay": {"sum": "pay"}},
        }
    },
    "agree": {
        "q": {
            "from": "people", "hierarchy": ["state", "town"], "cube": ["sex", "flag"],
            "columns": {"n": {"count": "*"}, "total": {"sum": "gain"}}, "consistent": True,
        }
    },
    "joined": {
        "q": {
            "from": "people", "join": {"table": "areas", "on": {"code": "code"}}, "group_by": ["kind"],
            "columns": {"n": {"count": "*"}, "real": {"sum": "pay"}},
        }
    },
    "private": {
        "q": {
            "from": "people", "group_by": ["place", "flag"], "private_keys": True,
            "columns": {"n": {"count": "*"}, "real": {"sum": "pay"}, "mid": {"median": "gain"}},
        }
    },
}  # fmt: skip
OF_IDS: dict[str, dict[str, Any]] = {
    "people": {
        "q": {
            "from": "people", "group_by": ["sex"],
            "columns": {"people": {"count_distinct": "id"}, "n": {"count": "*"}},
        }
    },
    "both": {
        "q": {
            "from": "people", "join": {"table": "visits", "on_unit": True}, "group_by": ["ward", "sex"],
            "columns": {"n": {"count": "*"}, "cost": {"sum": "cost"}, "pay": {"sum": "pay"}},
        },
        "v": {"from": "visits", "group_by": ["ward"], "columns": {"cost": {"sum": "cost"}}},
    },
    "private noise": {
        "q": {
            "from": "people", "group_by": ["place"],
            "private_keys": {"mechanism": "truncated_laplace"},
            "columns": {"n": {"count": "*"}},
        }
    },
}  # fmt: skip
TREE = {"tree": {"q": {"from": "people", "group_by": ["sex"], "columns": TREES}}}
INVARIANTS = {
    "invariants": {
        "q": {
            "from": "people", "hierarchy": ["state", "town"], "cube": ["sex", "flag"],
            "columns": {"n": {"count": "*"}},
            "consistent": {
                "invariants": [{"level": "state"}],
                "acknowledge": "invariants are published exactly",
            },
        }
    }
}  # fmt: skip
LOCAL: dict[str, Any] = {
    "title": "Records", "mode": "local", "tables": ["people.yaml"],
    "budget": {"epsilon": 8, "neighbours": "replace"},
    "records": {
        "r": {
            "from": "people",
            "columns": {"sex": {}, "age": {}, "gain": {"mechanism": "laplace"}, "flag": {}},
        }
    },
    "output": "out",
}  # fmt: skip
OF_LOCAL = {
    **COLUMNS,
    "sex": {"type": "category", "values": ["f", "m", "x"], "others": "x", "fill": "x"},
    "gain": {"type": "integer", "lower": -20, "upper": 50, "fill": 0},
}
FEDERATED: dict[str, Any] = {
    "federated": {"parties": 3, "honest": 2},
    "budget": {"epsilon": 2, "delta": "1e-6"},
}


def read_release(
    folder: Path, queries: dict[str, Any], unit: dict[str, Any] = ROWS, **more: Any
) -> Declaration:
    """Return a release of queries about people, whose files are written into a folder."""
    people = {"table": "people", "source": "nowhere.parquet", "columns": COLUMNS}
    if unit:
        people["privacy_unit"] = unit
    tables = [people, AREAS, VISITS] if "id" in unit else [people, AREAS]
    release = {
        "title": "Audited",
        "tables": [f"{one['table']}.yaml" for one in tables],
        "budget": {"epsilon": 3, "delta": "1e-6"},
        "queries": queries,
        "output": "out",
        **more,
    }
    return write_release(folder, release, *tables)


def read_local_release(folder: Path) -> Declaration:
    """Return a release of single records."""
    people = {"table": "people", "source": "nowhere.parquet", "columns": OF_LOCAL}
    return write_release(folder, LOCAL, people)


def write_release(folder: Path, release: dict[str, Any], *tables: dict[str, Any]) -> Declaration:
    """Write a release file and its tables, and return what they declare."""
    folder.mkdir(parents=True, exist_ok=True)
    for table in tables:
        text = yaml.safe_dump(table, sort_keys=False)
        (folder / f"{table['table']}.yaml").write_text(text, encoding="utf-8")
    path = folder / "release.yaml"
    path.write_text(yaml.safe_dump(release, sort_keys=False), encoding="utf-8")
    return read_declaration(path)
