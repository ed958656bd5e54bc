"""The step that makes the tables of a family consistent: `dprelease.consistency` for releases.

    family_shape      tables as levels of areas times attributes
    family_columns    counts and sums: their noise, variances and widths of margins
    derived           means, ratios and centred sums of the estimates
    aims              tables that declared targets refer to
    zeros             structural zeros
    invariants        tables with published true values
    outputs           published tables and columns, and their names
    reading           measured numbers, on a lattice that fits 64 bits
    piece_rows        rows of some areas
    values            estimates and integer tables, written area after area
    consistency_record  the model of the manifest record
    record            the values of the manifest record
    step              the whole step as a `FamilyStep`, and findings on the declaration

The second check uses other methods: `second_check`, `additivity` and `normal_equations`, which also
reads the tables.
"""
