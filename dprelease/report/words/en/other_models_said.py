"""English texts on single records and on the sum of several parties."""

from __future__ import annotations

OTHER_MODELS: dict[str, str] = {
    # Single records
    "records.heading": "What the records tell",
    "records.lead": (
        "Every published record was changed on purpose before anybody saw it. By itself it says "
        "little about the true one:"
    ),
    "records.single": "What the noise does to one record",
    "records.head.column": "Column",
    "records.head.single": "One record",
    "records.kept": (
        "says the true one of {values} values with a probability of {keep}, and each other one as "
        "often as any"
    ),
    "records.moved": "lies within {margin} {unit} of the true number in 95 % of all records",
    "records.all": "Estimates from all records together",
    "records.all.lead": (
        "Noise of many records averages out. These are estimates of the true means and of the true "
        "parts of all records; they are without bias, so a part may lie below 0 or above 1."
    ),
    "records.table": "{column}, {table}: {records} records",
    "records.head.value": "Value",
    "records.head.estimate": "Estimate",
    "records.head.margin": "Margin of error at 95 %",
    "records.mean": "Mean",
    "records.none": "No record was published, so there is nothing to estimate from.",
    "records.example": "{column}, {what}: the estimate is <strong>{value}</strong>.",
    "records.range.part": (
        "The true part of all records lies between {low} and {high}. Intervals that are made so "
        "hold it in {confidence} of all cases at least."
    ),
    "records.range.mean": (
        "The true mean of all records lies between {low} and {high}. Intervals that are made so "
        "hold it in {confidence} of all cases at least."
    ),
    "records.axis": "{column}, mean",
    "records.axis.unit": "{column}, mean, {unit}",
    "records.axis.part": "{column}, part of all records",
    "records.noise.lead": (
        "By these laws each record was changed by itself: a value of a list was kept or exchanged, "
        "and whole numbers were added to whole numbers of steps, without any error of floating "
        "point."
    ),
    "records.single.only": (
        "That is about all records together, each estimate by itself. Of groups with few records "
        "hardly anything can be told: the margin grows as the number of records falls."
    ),
    # Sums of several parties
    "sums.warning": (
        "<strong>Not for publication.</strong> This is about the messages of party {party} of "
        "{parties}. What the label says holds for who sees the sum of all messages and nothing "
        "else, if {honest} parties at least are honest; who sees these messages by themselves has "
        "the guarantee of a single share of the noise."
    ),
    "sums.heading": "The sum of all parties",
    "sums.lead": (
        "Messages are added up cell by cell. No number of this page is one of them: the margins "
        "follow from the noise that all parties together add."
    ),
    "sums.margins": "Margins of error of the sums, at 95 %",
    "sums.head.column": "Column",
    "sums.head.cells": "Cells",
    "sums.head.margin": "Margin of error",
    "sums.trust": "Who has to be trusted",
    "sums.trust.lead": (
        "Honest parties draw their noise as declared and tell it to nobody. The fewer there are, "
        "the less noise hides the people of each of them."
    ),
    "sums.trust.seen": (
        "The last line is also what holds for whoever sees messages of a single party. The others "
        "hold for whoever sees nothing but the sum of all parties’ messages: that takes secure "
        "aggregation, or a summing party that is trusted."
    ),
    "sums.trusts": "What holds for how many honest parties",
    "sums.head.honest": "Honest parties",
    "sums.head.epsilon": "Epsilon",
    "sums.head.delta": "Delta",
    "sums.honest": "{honest} of {parties}",
    "sums.noise": "Shares of noise",
    "sums.head.noise": "Noise",
    "sums.head.scale": "Scale, in steps",
    "sums.head.moves": "What one unit moves",
    "sums.scale": "{share} of a share, {sum} of the sum of all, alpha {alpha}",
    # Rehearsals of both
    "simulated.heading": "Errors of a rehearsal",
    "simulated.lead.records": (
        "The same release was rehearsed on people who don’t exist, or on a public table, so that "
        "its records could be held against the true ones: one by one, and in estimates from all of "
        "them."
    ),
    "simulated.lead.sums": (
        "All parties of the release were rehearsed with people who don’t exist, or with a public "
        "table that was dealt to them, so that sums of their messages could be held against the "
        "true ones."
    ),
    "simulated.head.column": "Column",
    "simulated.head.cells": "Numbers",
    "simulated.head.expected": "Mean error, expected",
    "simulated.head.found": "Mean error, found",
    "simulated.head.covered": "Margins that reach the truth",
    "simulated.head.bias": "Mean of errors with their signs",
    "simulated.head.unit": "Unit",
}
