"""English texts on quality."""

QUALITY: dict[str, str] = {
    # Quality
    "quality.heading": "Quality",
    "quality.lead": (
        "The larger a number, the less the noise matters. All numbers in this section are counted "
        "from the published tables."
    ),
    "quality.lead.official": (
        "The larger a number, the less the noise matters. All numbers in this section are counted "
        "from the official tables, without the tables whose title ends with “({estimates})”."
    ),
    "quality.expected": "Expected margins of error",
    "quality.table": "Expected margin of error and published cells, by table",
    "quality.table.part": (
        "The {shown} columns with the widest margins for their size, of {all}; the sums of all are "
        "in the table before."
    ),
    "quality.groups": "Sums over all tables of a query",
    "quality.none": "No column of this release is a number with noise.",
    "quality.head.table": "Table",
    "quality.head.column": "Column",
    "quality.head.tables": "Tables",
    "quality.head.cells": "Cells",
    "quality.head.margin": "Margin of error",
    "quality.head.wide": "Margin above the value",
    "quality.head.negative": "Below 0",
    "quality.head.empty": "Empty",
    "quality.margin": "± {margin}",
    "quality.margin.range": "± {margin} ({least} to {largest})",
    "quality.margin.ranges": "see the ranges",
    "quality.margin.rows": "± {margin} in a cell of {rows} rows",
    "quality.share": "{code}: {number}",
    "quality.ranks": (
        "Selected values (medians, quantiles, minima, maxima, frequent values) have errors in "
        "rows: how many rows lie between the requested and the published value. If their ranges "
        "are published, these say how far they may be off."
    ),
    "quality.size": "Quality by size of the number",
    "quality.size.lead": (
        "For each size of a number: how many such numbers are published, how large their margin of "
        "error is as a share of the value, and, where published, how many are in each quality "
        "class."
    ),
    "quality.size.left": "Not shown here, so that the page stays small: {units}.",
    "size.title": "Numbers in {unit}",
    "size.title.counts": "Counts",
    "size.title.none": "Numbers without a unit",
    "size.head.size": "Size of the number",
    "size.head.cells": "Numbers",
    "size.head.margin": "Typical margin",
    "size.head.classes": "Quality class: numbers",
    "size.row": "{low} to below {high}",
    "size.row.first": "below {high}",
    "quality.impossible": "What to know about the numbers",
    "quality.impossible.none": "No published number is below 0 where a true one can’t be.",
    "quality.impossible.some": (
        "{number} of the {cells} published numbers ({part}) are below 0, where no true number can "
        "be. They are small numbers with noise. They are published as they are, because setting "
        "them to 0 would make sums of small groups too large."
    ),
    "quality.impossible.some.one": (
        "{number} of the {cells} published numbers ({part}) is below 0, where no true number can "
        "be. It is a small number with noise. It is published as it is, because setting such "
        "numbers to 0 would make sums of small groups too large."
    ),
    "quality.empty": "{number} cells: {reason}.",
    "quality.empty.one": "{number} cell: {reason}.",
    "quality.adjusted.one": (
        "{part} of the whole numbers ({number} cell) are “adjusted”: moved out of their own "
        "range so that all add up, or without a whole number from 0 up within their margin. Don’t "
        "quote them."
    ),
    "quality.adjusted": (
        "{part} of the whole numbers ({number} cells) are “adjusted”: moved out of their own "
        "range so that all add up, or without a whole number from 0 up within their margin. Don’t "
        "quote them."
    ),
    "quality.weak": (
        "More than half of the numbers in these tables are unreliable or empty: {tables}."
    ),
    "quality.weak.fix": (
        "The publisher can release better numbers with fewer keys or broader groups, with a larger "
        "share of the budget for these tables, or with lower contribution limits."
    ),
    "quality.totals": "Totals that differ between tables",
    "quality.totals.lead": (
        "Tables have independent noise, so the sums of finer tables differ from the totals of "
        "coarser ones; the annex lists by how much."
    ),
    "quality.totals.none": "No table of this release adds up to another one.",
    "quality.totals.bounded": (
        "The counts and sums of these tables need not add up: {tables}. Each has noise of its own, "
        "and contribution limits apply to each separately, so rows that one leaves out may be in "
        "another. Consistent tables of one query add up among themselves."
    ),
    "quality.totals.counted": (
        "Rows without a declared value of {keys} are left out of these tables, also of their "
        "totals, and may count in others: {tables}."
    ),
    "quality.totals.agree": (
        "The tables of {queries} add up exactly: the numbers of a finer table give those of a "
        "coarser one."
    ),
    "quality.totals.left": "{number} more pairs of tables were not compared here.",
    "quality.totals.left.one": "{number} more pair of tables was not compared here.",
    "quality.totals.finer": "Finer table",
    "quality.totals.coarser": "Coarser table",
    "quality.totals.differ": "Totals that differ",
    "quality.totals.typical": "Typical difference",
    "quality.totals.expected": "Expected from noise",
    "quality.totals.largest": "Largest",
    "quality.totals.changed": "values were cut or rounded after the noise",
    "quality.totals.of": "{number} of {all}",
    "quality.totals.why": (
        "A typical difference well above the expected one has another cause: rows without a value "
        "of the further keys, contribution limits, or changes of values after the noise."
    ),
    "quality.bias": "Negative numbers that became 0",
    "quality.bias.lead": (
        "In {columns}, negative numbers are published as 0. So small numbers are too large on "
        "average; the annex states by how much."
    ),
    "quality.bias.unknown": (
        "In {columns}, negative numbers are published as 0. So small numbers are too large on "
        "average."
    ),
    "quality.bias.true": "A value before noise of",
    "quality.bias.mean": "is published too large by",
    "quality.bias.whole": (
        "The numbers of {queries} are whole, never below 0, and add up. For this, small numbers "
        "were raised and large ones lowered a little. Take single numbers and totals from these "
        "tables. Those whose title ends with “({estimates})” have decimals and can be below 0: use "
        "them only for sums of your own."
    ),
    "quality.simulated": "Errors found in the rehearsal",
    "quality.simulated.lead": (
        "The release was rehearsed on a table that is not secret, so published numbers can be "
        "compared with true ones."
    ),
    "quality.simulated.error": "Mean error, expected",
    "quality.simulated.found": "Mean error, found",
    "quality.simulated.coverage": "Intervals with the true value",
    "quality.simulated.bias": "Largest mean error of a size class, with its sign",
}
