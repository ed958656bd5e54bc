"""The step that makes the tables of a family agree: `dprelease.consistency` for releases.

    shape       tables as levels of areas times attributes
    columns     counts and sums: laws of their noise, variances, how wide margins are
    findings    what can't be had, told from the declaration
    outputs     what is published, under which names
    reading     measured numbers, areas after areas, within what 64 bits hold
    values      both layers, written area after area
    record      what the manifest says
    step        all of it as a `FamilyStep`

The second check, by other ways: `additivity`, `normal_equations`, `dense_errors`, `exchanges`.
"""
