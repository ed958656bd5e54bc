"""Types of declarations, written by `python -m dprelease.schema.typed.generator`."""

# fmt: off
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from typing import Literal, Required, TypedDict

Scalar = str | int | float | Decimal | Fraction | PurePath | date

class AboutSpec(TypedDict, total=False):
    title: Scalar | Mapping[str, Scalar] | None
    description: Scalar | Mapping[str, Scalar] | None
    publisher: Scalar | None
    contact: Scalar | None
    licence: Scalar | None
    period: Scalar | None
    area: Scalar | None
    version: Scalar | None
    replaces: Scalar | None
    methodology: Scalar | None
    notes: Scalar | Mapping[str, Scalar] | Sequence[Scalar | Mapping[str, Scalar]]
    languages: Scalar | Sequence[Scalar]

class BooleanColumn(TypedDict, total=False):
    label: Scalar | Mapping[str, Scalar] | None
    description: Scalar | Mapping[str, Scalar] | None
    footnotes: Scalar | Mapping[str, Scalar] | Sequence[Scalar | Mapping[str, Scalar]]
    fill: Scalar
    missing: Scalar | Sequence[Scalar]
    expression: Scalar | None
    strip: Scalar | Sequence[Scalar]
    marks: Mapping[str, Scalar]
    type: Required[Literal["boolean"]]
    labels: Mapping[str, Scalar | Mapping[str, Scalar]]

class BudgetSpec(TypedDict, total=False):
    epsilon: Scalar | None
    rho: Scalar | None
    delta: Scalar
    neighbours: Neighbours
    spend: Literal["all", "least"]
    tables: Mapping[str, Scalar | ShareSpec]

class CategoryColumn(TypedDict, total=False):
    label: Scalar | Mapping[str, Scalar] | None
    description: Scalar | Mapping[str, Scalar] | None
    footnotes: Scalar | Mapping[str, Scalar] | Sequence[Scalar | Mapping[str, Scalar]]
    fill: Scalar
    unallocated: bool | Scalar | Mapping[str, Scalar]
    values: Mapping[str, Scalar | Mapping[str, object]] | Mapping[str, Sequence[Scalar] |
        Mapping[str, Scalar | Mapping[str, object]]] | Sequence[Scalar] | None
    values_from: Scalar | ValuesFrom | None
    within: Scalar | Sequence[Scalar]
    missing: Scalar | Sequence[Scalar]
    expression: Scalar | None
    strip: Scalar | Sequence[Scalar]
    marks: Mapping[str, Scalar]
    type: Required[Literal["category"]]
    others: Scalar
    marks_of: Scalar | None

class ChooseSpec(TypedDict, total=False):
    share: Required[Scalar]
    up_to: Scalar | None
    persons: Scalar

class ColumnSpec(TypedDict, total=False):
    label: Scalar | Mapping[str, Scalar] | None
    description: Scalar | Mapping[str, Scalar] | None
    footnotes: Scalar | Mapping[str, Scalar] | Sequence[Scalar | Mapping[str, Scalar]]
    count: Scalar | None
    sum: Scalar | None
    count_distinct: Scalar | None
    mean: Scalar | None
    variance: Scalar | None
    stddev: Scalar | None
    ratio: Sequence[Scalar] | None
    covariance: Sequence[Scalar] | None
    covariance_pop: Sequence[Scalar] | None
    correlation: Sequence[Scalar] | None
    slope: RegressionSpec | None
    intercept: RegressionSpec | None
    weighted_count: Scalar | None
    weighted_sum: WeightedSpec | None
    weighted_mean: WeightedSpec | None
    effective_size: Scalar | None
    design_error: DesignErrorSpec | None
    share: Scalar | TotalShareSpec | None
    quantile_ratio: QuantileRatioSpec | None
    quantile: QuantileSpec | None
    median: Scalar | None
    min: Scalar | None
    max: Scalar | None
    mode: Scalar | None
    top_k: Scalar | None
    k: Scalar | None
    mechanism: Scalar | MechanismSpec | None
    weight: Scalar
    epsilon: Scalar | None
    rho: Scalar | None
    moe: Scalar | None
    relative_moe: Scalar
    margin: bool | Scalar | None
    interval: bool | Scalar | None
    max_sum: Scalar | None
    non_negative: bool
    round_to: Scalar | None
    suppress_below: Scalar | SuppressionSpec | None
    suppress_above: Scalar | None
    bottom_code: Scalar | None
    top_code: Scalar | None
    labels: bool
    decimals: Scalar | None
    quality: bool

class ConsistentSpec(TypedDict, total=False):
    non_negative: bool
    zeros: Sequence[Mapping[str, Scalar | Sequence[Scalar]]]
    publish: PublishSpec
    invariants: Sequence[InvariantSpec]
    acknowledge: Scalar | None
    targets: Sequence[TargetSpec]
    method: Literal["least_squares", "fast"] | None
    composition: Literal["parent"] | None
    groupings: Scalar | Sequence[Scalar]

class CutColumn(TypedDict, total=False):
    label: Scalar | Mapping[str, Scalar] | None
    description: Scalar | Mapping[str, Scalar] | None
    footnotes: Scalar | Mapping[str, Scalar] | Sequence[Scalar | Mapping[str, Scalar]]
    fill: Scalar
    unallocated: bool | Scalar | Mapping[str, Scalar]
    cut: Required[Scalar]
    edges: Required[Sequence[Scalar]]
    closed: Literal["left", "right"]
    labels: Sequence[Scalar] | Mapping[str, Scalar | Mapping[str, Scalar] | None] | None
    others: Scalar

class DateColumn(TypedDict, total=False):
    label: Scalar | Mapping[str, Scalar] | None
    description: Scalar | Mapping[str, Scalar] | None
    footnotes: Scalar | Mapping[str, Scalar] | Sequence[Scalar | Mapping[str, Scalar]]
    fill: Scalar
    missing: Scalar | Sequence[Scalar]
    expression: Scalar | None
    strip: Scalar | Sequence[Scalar]
    marks: Mapping[str, Scalar]
    type: Required[Literal["date"]]
    lower: Scalar | None
    upper: Scalar | None
    format: Scalar
    pivot: Scalar | None

class DesignErrorSpec(TypedDict, total=False):
    weight: Required[Scalar]
    replicates: Required[Scalar | Sequence[Scalar]]
    scale: Required[Scalar]
    of: Scalar | None
    max_difference: Scalar | None

class Documented(TypedDict, total=False):
    label: Scalar | Mapping[str, Scalar] | None
    description: Scalar | Mapping[str, Scalar] | None
    footnotes: Scalar | Mapping[str, Scalar] | Sequence[Scalar | Mapping[str, Scalar]]

class DuckDBSpec(TypedDict, total=False):
    memory_limit: Scalar
    threads: Scalar | None
    temp_directory: Scalar | None

class FederatedSpec(TypedDict, total=False):
    parties: Required[Scalar]
    honest: Scalar | None

class GiniSpec(TypedDict, total=False):
    count: Required[Scalar]
    over: Required[Scalar]

class HistogramSpec(TypedDict, total=False):
    label: Scalar | Mapping[str, Scalar] | None
    description: Scalar | Mapping[str, Scalar] | None
    footnotes: Scalar | Mapping[str, Scalar] | Sequence[Scalar | Mapping[str, Scalar]]
    column: Required[Scalar]
    edges: Required[Sequence[Scalar]]
    closed: Literal["left", "right"]
    labels: Sequence[Scalar] | Mapping[str, Scalar | Mapping[str, Scalar] | None] | None
    name: Scalar | None

class IntegerColumn(TypedDict, total=False):
    label: Scalar | Mapping[str, Scalar] | None
    description: Scalar | Mapping[str, Scalar] | None
    footnotes: Scalar | Mapping[str, Scalar] | Sequence[Scalar | Mapping[str, Scalar]]
    fill: Scalar
    missing: Scalar | Sequence[Scalar]
    expression: Scalar | None
    strip: Scalar | Sequence[Scalar]
    marks: Mapping[str, Scalar]
    negative: Literal["(1)", "1-", "−1", "–1"] | Sequence[object]
    type: Required[Literal["integer"]]
    lower: Scalar | None
    upper: Scalar | None
    step: Scalar
    unit: Scalar | None
    decimals: Scalar | None
    labels: Mapping[str, Scalar | Mapping[str, Scalar]]

class InvariantSpec(TypedDict, total=False):
    level: Scalar | None
    table: Sequence[Scalar]
    column: Scalar | None

class JoinSpec(TypedDict, total=False):
    table: Required[Scalar]
    on: Mapping[str, Scalar]
    on_unit: bool
    without: Sequence[Scalar]
    unmatched: Literal["keep", "drop"]
    max_groups: Scalar | None
    max_rows_per_group: Scalar | None
    max_rows: Scalar | None

class LimitSpec(TypedDict, total=False):
    value: Scalar | None
    choose: ChooseSpec | None

class Limits(TypedDict, total=False):
    max_cells: Scalar
    max_columns: Scalar

class LookupSpec(TypedDict, total=False):
    source: Required[Scalar | Source]
    on: Required[Scalar | Mapping[str, Scalar]]
    id: Scalar | None

MechanismSpec = Mapping[str, object]

Neighbours = Literal["add_remove", "replace"]

class NumberColumn(TypedDict, total=False):
    label: Scalar | Mapping[str, Scalar] | None
    description: Scalar | Mapping[str, Scalar] | None
    footnotes: Scalar | Mapping[str, Scalar] | Sequence[Scalar | Mapping[str, Scalar]]
    fill: Scalar
    missing: Scalar | Sequence[Scalar]
    expression: Scalar | None
    strip: Scalar | Sequence[Scalar]
    marks: Mapping[str, Scalar]
    negative: Literal["(1)", "1-", "−1", "–1"] | Sequence[object]
    type: Required[Literal["number"]]
    lower: Scalar | None
    upper: Scalar | None
    step: Scalar | None
    unit: Scalar | None
    decimals: Scalar | None

class PrivateKeysSpec(TypedDict, total=False):
    mechanism: Literal["auto", "partition_selection", "truncated_laplace", "gaussian_threshold"]
    weight: Scalar
    epsilon: Scalar | None
    delta: Scalar | None

class PublishSpec(TypedDict, total=False):
    down_to: Scalar | None
    partition: Scalar | None
    records: bool

class QualitySpec(TypedDict, total=False):
    limits: Sequence[Scalar]

class QuantileRatioSpec(TypedDict, total=False):
    of: Required[Scalar]
    over: Required[Scalar]
    under: Required[Scalar]

class QuantileSpec(TypedDict, total=False):
    of: Required[Scalar]
    at: Required[Scalar]

QuerySpec = TypedDict("QuerySpec", {
    "label": Scalar | Mapping[str, Scalar] | None,
    "description": Scalar | Mapping[str, Scalar] | None,
    "footnotes": Scalar | Mapping[str, Scalar] | Sequence[Scalar | Mapping[str, Scalar]],
    "from": Required[Scalar],
    "join": JoinSpec | None,
    "derive": Mapping[str, CategoryColumn | IntegerColumn | NumberColumn | BooleanColumn |
        DateColumn | TimestampColumn | TextColumn | CutColumn],
    "where": Scalar | None,
    "group_by": Scalar | Sequence[Scalar],
    "marginals": Sequence[Sequence[Scalar]],
    "cube": Sequence[Scalar],
    "rollup": Sequence[Scalar],
    "hierarchy": Sequence[Scalar],
    "marginals_at": Mapping[str, Sequence[Sequence[Scalar]]],
    "columns": Mapping[str, ColumnSpec],
    "share": Scalar | ShareSpec,
    "histogram": HistogramSpec | None,
    "consistent": bool | ConsistentSpec | None,
    "family": Scalar | None,
    "summaries": Mapping[str, SummarySpec],
    "max_groups": Scalar | LimitSpec | None,
    "max_rows_per_group": Scalar | LimitSpec | None,
    "max_rows": Scalar | None,
    "private_keys": bool | PrivateKeysSpec | None,
    "tables": Mapping[str, Documented],
}, total=False)

class RateSpec(TypedDict, total=False):
    events: Required[Scalar]
    population: Scalar | None
    population_from: Scalar | Mapping[str, Scalar] | None
    over: Required[Scalar]
    standard: Required[Scalar | Mapping[str, Scalar]]
    per: Scalar

class RecordColumnSpec(TypedDict, total=False):
    label: Scalar | Mapping[str, Scalar] | None
    description: Scalar | Mapping[str, Scalar] | None
    footnotes: Scalar | Mapping[str, Scalar] | Sequence[Scalar | Mapping[str, Scalar]]
    mechanism: Scalar | MechanismSpec | None
    weight: Scalar
    epsilon: Scalar | None
    rho: Scalar | None
    decimals: Scalar | None

RecordsSpec = TypedDict("RecordsSpec", {
    "label": Scalar | Mapping[str, Scalar] | None,
    "description": Scalar | Mapping[str, Scalar] | None,
    "footnotes": Scalar | Mapping[str, Scalar] | Sequence[Scalar | Mapping[str, Scalar]],
    "from": Required[Scalar],
    "columns": Required[Sequence[Scalar] | Mapping[str, RecordColumnSpec]],
    "share": Scalar | ShareSpec,
}, total=False)

class RegressionSpec(TypedDict, total=False):
    of: Required[Scalar]
    on: Required[Scalar]
    controls: Sequence[Scalar]

class RehearsalSpec(TypedDict, total=False):
    rows: Scalar | None
    zipf: Scalar
    missing: Scalar
    undeclared: Scalar
    beyond: Scalar
    frequencies: Mapping[str, Mapping[str, Scalar]]

class ShareSpec(TypedDict, total=False):
    weight: Scalar | None
    epsilon: Scalar | None
    rho: Scalar | None

class Source(TypedDict, total=False):
    path: Scalar | None
    files: Sequence[Scalar | Source]
    frame: Scalar | None
    format: Literal["parquet", "csv", "fixed_width", "json_lines", "duckdb", "sqlite", "excel",
        "stat_package", "postgres", "delta", "iceberg"] | None
    table: Scalar | None
    version: Scalar | None
    snapshot: Scalar | None
    sheet: Scalar | None
    header: Scalar | Sequence[Scalar] | None
    names: Sequence[Scalar]
    columns: Mapping[str, Sequence[Scalar] | Scalar | None]
    constants: Mapping[str, Scalar]
    codes: Mapping[str, Scalar | Mapping[str, Scalar]]
    skip: Scalar | Sequence[Scalar]
    comment: Scalar | Sequence[Scalar]
    until: Scalar | None
    footer: Scalar
    ragged: Literal["pad"] | None
    merged: Literal["fill"] | None
    delimiter: Scalar | None
    quote: Scalar
    escape: Literal["\\"] | None
    nulls: Sequence[Scalar]
    encoding: Scalar
    compression: Literal["none", "gzip", "zstd", "bz2", "zip"] | None
    decimal: Literal[".", ","]
    thousands: Literal[".", ",", "'", "’", "_", " ", " ", " ", " "] | None
    date_format: Scalar | None
    timestamp_format: Scalar | None
    pivot: Scalar | None
    time_zone: Scalar

class SparkSpec(TypedDict, total=False):
    master: Scalar | None
    staging: Scalar | None
    config: Mapping[str, Scalar]

class SummarySpec(TypedDict, total=False):
    label: Scalar | Mapping[str, Scalar] | None
    description: Scalar | Mapping[str, Scalar] | None
    footnotes: Scalar | Mapping[str, Scalar] | Sequence[Scalar | Mapping[str, Scalar]]
    gini: GiniSpec | None
    standardised_rate: RateSpec | None
    decimals: Scalar | None

class SuppressionSpec(TypedDict, total=False):
    people: Scalar | None
    value: Scalar | None

class TargetSpec(TypedDict, total=False):
    level: Scalar | None
    table: Sequence[Scalar]
    column: Scalar | None
    weight: Scalar | None
    moe: Scalar | None

class TextColumn(TypedDict, total=False):
    label: Scalar | Mapping[str, Scalar] | None
    description: Scalar | Mapping[str, Scalar] | None
    footnotes: Scalar | Mapping[str, Scalar] | Sequence[Scalar | Mapping[str, Scalar]]
    missing: Scalar | Sequence[Scalar]
    expression: Scalar | None
    strip: Scalar | Sequence[Scalar]
    marks: Mapping[str, Scalar]
    type: Required[Literal["text"]]

class TimestampColumn(TypedDict, total=False):
    label: Scalar | Mapping[str, Scalar] | None
    description: Scalar | Mapping[str, Scalar] | None
    footnotes: Scalar | Mapping[str, Scalar] | Sequence[Scalar | Mapping[str, Scalar]]
    missing: Scalar | Sequence[Scalar]
    expression: Scalar | None
    strip: Scalar | Sequence[Scalar]
    marks: Mapping[str, Scalar]
    type: Required[Literal["timestamp"]]
    lower: Scalar | None
    upper: Scalar | None
    format: Scalar
    pivot: Scalar | None

class TotalShareSpec(TypedDict, total=False):
    of: Required[Scalar]
    within: Sequence[Scalar]
    percent: bool

class UnitSpec(TypedDict, total=False):
    id: Scalar | None
    lookup: LookupSpec | None
    max_groups: Scalar | None
    max_rows_per_group: Scalar | None
    max_rows: Scalar | None

class ValuesFrom(TypedDict, total=False):
    file: Required[Scalar]
    column: Scalar | None
    labels: Scalar | Mapping[str, Scalar] | None
    encoding: Scalar
    delimiter: Literal[",", ";", "\t", "|"]

class WeightedSpec(TypedDict, total=False):
    of: Required[Scalar]
    weight: Required[Scalar]

class ReleaseMapping(TypedDict, total=False):
    title: Required[Scalar]
    about: AboutSpec | None
    mode: Literal["central", "local"]
    tables: Sequence[str | PurePath | TableMapping]
    budget: BudgetSpec
    mechanism: Scalar | MechanismSpec
    queries: Mapping[str, QuerySpec]
    records: Mapping[str, RecordsSpec]
    federated: FederatedSpec | None
    output: Required[Scalar]
    ledger: Scalar | None
    limits: Limits
    quality: bool | QualitySpec | None
    duckdb: DuckDBSpec
    engine: Literal["duckdb", "spark"]
    spark: SparkSpec
    formats: Sequence[Literal["parquet", "csv", "excel", "ods", "sdmx-csv", "json-stat", "px",
        "dp-event", "mbi", "report", "registry", "datapackage", "dcat"]]
    wide: Scalar | Sequence[Scalar]
    variables: Mapping[str, Literal["integer", "number", "date", "text"]]
    defaults: Scalar | None

class TableMapping(TypedDict, total=False):
    table: Required[Scalar]
    owner: Scalar | None
    size: Scalar | None
    source: object
    public: bool
    privacy_unit: UnitSpec
    columns: Required[Mapping[str, CategoryColumn | IntegerColumn | NumberColumn | BooleanColumn |
        DateColumn | TimestampColumn | TextColumn | CutColumn]]
    rehearsal: RehearsalSpec
