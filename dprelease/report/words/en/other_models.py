"""English texts on single records and on the sum of several parties."""

OTHER_MODELS: dict[str, str] = {
    # Single records
    "records.heading": "Estimates from the records",
    "records.lead": (
        "Every published record was changed at random before anybody saw it. A single record says "
        "little about the true one; all records together give estimates."
    ),
    "records.single": "What the noise does to one record",
    "records.head.column": "Column",
    "records.head.single": "One record",
    "records.kept": (
        "shows the true one of {values} values with probability {keep}, and each other value "
        "equally often"
    ),
    "records.moved": "lies within {margin} {unit} of the true number in 95 % of all records",
    "records.all": "Estimates from all records together",
    "records.all.lead": (
        "The noise of many records averages out. These are estimates of the means and of the "
        "shares of all records. Because of the noise, a share may be below 0 or above 1."
    ),
    "records.open": "Open the table with margins of error",
    "records.table": "{column}, {table}: {records} records",
    "records.head.value": "Value",
    "records.head.estimate": "Estimate",
    "records.head.margin": "Margin of error at 95 %",
    "records.mean": "Mean",
    "records.none": "No record was published, so there is nothing to estimate from.",
    "records.example": "{column}, {what}: the estimate is <strong>{value}</strong>.",
    "records.range.part": (
        "With {confidence} confidence, the share of all records is between {low} and {high}."
    ),
    "records.range.mean": (
        "With {confidence} confidence, the mean of all records, with values moved into the "
        "declared bounds, is between {low} and {high}."
    ),
    "records.axis": "{column}, mean",
    "records.axis.unit": "{column}, mean, {unit}",
    "records.axis.part": "{column}, share of all records",
    "records.noise.lead": (
        "Each record was changed separately with these distributions: a value of a list was kept "
        "or exchanged, and random integers were added to integers of steps, without "
        "floating-point errors."
    ),
    "records.single.only": (
        "This holds for all records together and for each estimate separately. Groups with few "
        "records have wide margins: the margin grows as the number of records falls."
    ),
    # Sums of several parties
    "sums.warning": (
        "<strong>Not for publication.</strong> This page describes the messages of party {party} "
        "of {parties}. The guarantee holds against those who see only the sum of all messages, "
        "if at least {honest} parties are honest. Against those who see these messages "
        "themselves, only the noise of one party protects."
    ),
    "sums.heading": "The sum of all parties",
    "sums.lead": (
        "Messages are added up cell by cell. This page contains no message: the margins follow "
        "from the noise that all parties add together."
    ),
    "sums.margins": "Margins of error of the sums, at 95 %",
    "sums.head.column": "Column",
    "sums.head.cells": "Cells",
    "sums.head.margin": "Margin of error",
    "sums.trust": "Who has to be trusted",
    "sums.trust.lead": (
        "Honest parties draw their noise as declared and keep it secret. The fewer they are, the "
        "less noise protects the people of each of them."
    ),
    "sums.trust.seen": (
        "The last line also holds against those who see the messages of a single party. The others "
        "hold against those who see only the sum of all messages, which takes secure aggregation "
        "or a trusted summing party."
    ),
    "sums.trusts": "The guarantee by the number of honest parties",
    "sums.head.honest": "Honest parties",
    "sums.head.epsilon": "Epsilon",
    "sums.head.delta": "Delta",
    "sums.honest": "{honest} of {parties}",
    "sums.noise": "Shares of noise",
    "sums.head.noise": "Noise",
    "sums.head.scale": "Scale, in steps",
    "sums.head.moves": "What one unit changes",
    "sums.scale": "{share} of a share, {sum} of the sum of all, alpha {alpha}",
    # Rehearsals of both
    "simulated.heading": "Errors of a rehearsal",
    "simulated.lead.records": (
        "The release was rehearsed on invented people, or on a public table, so its records and "
        "the estimates from them can be compared with true ones."
    ),
    "simulated.lead.sums": (
        "All parties of the release were rehearsed with invented people, or with parts of a public "
        "table, so the sums of their messages can be compared with true ones."
    ),
    "simulated.head.column": "Column",
    "simulated.head.cells": "Numbers",
    "simulated.head.expected": "Mean error, expected",
    "simulated.head.found": "Mean error, found",
    "simulated.head.covered": "Intervals with the true value",
    "simulated.head.bias": "Mean error with its sign",
    "simulated.head.unit": "Unit",
}
