"""Declarations to rehearse, whose sources are not there."""

from __future__ import annotations

from pathlib import Path

VISITS = """\
table: visits
source: secret/visits.csv
owner: office
size: 3000
privacy_unit: {id: person, max_groups: 3, max_rows_per_group: 2}
columns:
  person: {type: text}
  state: {type: category, values: [BE, ZH, GE], fill: ZH, others: GE}
  city: {type: category, within: state, values: {BE: [Bern, Thun], ZH: [Uster, Wald], GE: [Onex]}}
  sex: {type: category, values: [f, m]}
  insured: {type: boolean}
  age: {type: integer, lower: 0, upper: 99, unit: years}
  band: {cut: age, edges: [0, 18, 65, 100]}
  cost: {type: number, lower: -10, upper: 1000, step: 0.5, fill: 0}
  hours: {type: number, lower: 1, upper: 12, step: 1}
  day: {type: date, lower: 2024-01-01, upper: 2024-01-10}
  seen: {type: timestamp}
  note: {type: text}
"""
STAYS = """\
table: stays
source: {frame: stays}
owner: office
privacy_unit: {id: person, max_groups: 2, max_rows_per_group: 3}
columns:
  person: {type: text}
  ward: {type: category, values: [a, b]}
  nights: {type: integer, lower: 0, upper: 30}
rehearsal: {rows: 4000, frequencies: {ward: {a: 3, b: 1}}}
"""
HOMES = """\
table: homes
source: nowhere.parquet
size: 2000
columns:
  city: {type: category, values: [Bern, Thun, Wald]}
  rooms: {type: integer, lower: 1, upper: 9}
"""
REGIONS = """\
table: regions
public: true
source: nowhere.csv
columns:
  code: {type: text}
  coast: {type: category, values: [coast, inland], fill: inland}
"""
RELEASE = """\
title: Everything
tables: [visits.yaml, stays.yaml, homes.yaml, regions.yaml]
budget: {epsilon: 8}
mechanism: discrete_laplace
queries:
  counts:
    from: visits
    where: note <> 'gone' AND age >= 18
    marginals: [[], [state], [state, sex], [band], [day], [insured]]
    columns:
      n: {count: "*", margin: true}
      people: {count_distinct: person}
      spent: {sum: cost, margin: 0.9}
  values:
    from: visits
    group_by: [sex]
    columns:
      mean_cost: {mean: cost, margin: true}
      spread: {stddev: cost}
      wage: {ratio: [cost, hours]}
      middle: {median: age}
      low: {min: age}
      high: {max: age}
      tenth: {quantile: {of: cost, at: 0.1}}
      most: {mode: city, mechanism: permute_and_flip}
      top: {top_k: state, k: 2}
  finished:
    from: visits
    group_by: [state]
    columns:
      n: {count: "*", round_to: 5, non_negative: true}
      few: {count: age, suppress_below: 500}
  coasts:
    from: visits
    join: {table: regions, on: {state: code}}
    derive: {monthly: {expression: cost / 12, type: number, lower: 0, upper: 80, step: 1}}
    group_by: [coast]
    columns: {n: {count: "*"}, monthly: {sum: monthly}}
  both:
    from: visits
    join: {table: stays, on_unit: true, max_groups: 2, max_rows_per_group: 4}
    group_by: [sex, ward]
    columns: {n: {count: "*"}, nights: {sum: nights}}
  wards:
    from: stays
    group_by: [ward]
    columns: {n: {count: "*"}}
  rooms:
    from: homes
    histogram: {column: rooms, edges: [1, 3, 10]}
    columns: {n: {count: "*", margin: true}}
ledger: ledger.sqlite
output: out/everything
"""
FOUND = """\
title: Keys that are found
tables: [visits.yaml]
budget: {epsilon: 2, delta: 1e-6}
mechanism: discrete_laplace
queries:
  found:
    from: visits
    group_by: [note]
    private_keys: {mechanism: MECHANISM}
    columns: {n: {count: "*"}, people: {count_distinct: person}}
output: out/found
"""
AGREEING = """\
title: Tables that agree
tables: [visits.yaml]
budget: {rho: 2, delta: 1e-9}
queries:
  agree:
    from: visits
    hierarchy: [state, city]
    marginals: [[], [sex]]
    columns: {n: {count: "*", margin: true}}
    consistent: {non_negative: true, publish: {records: true}}
  sums:
    from: visits
    rollup: [sex, state]
    columns: {spent: {sum: cost}, n: {count: "*"}}
    consistent: true
  alone:
    from: visits
    group_by: [sex]
    columns: {n: {count: "*"}}
output: out/agree
"""

EXACT = """\
title: Tables with exact totals
tables: [homes.yaml, visits.yaml]
budget: {epsilon: 2, neighbours: replace}
mechanism: discrete_laplace
queries:
  agree:
    from: visits
    hierarchy: [state, city]
    marginals: [[], [sex]]
    columns: {n: {count: "*"}}
    consistent:
      non_negative: true
      invariants: [{level: state}]
      acknowledge: invariants are published exactly
output: out/exact
"""


def write(folder: Path, release: str = RELEASE) -> Path:
    """Write the declarations into a folder, and return the release file; no source is there."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = {"visits": VISITS, "stays": STAYS, "homes": HOMES, "regions": REGIONS}
    for name, text in tables.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    path = folder / "release.yaml"
    path.write_text(release, encoding="utf-8")
    return path
