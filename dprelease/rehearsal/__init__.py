"""Rehearse a whole release on synthetic people, and measure its errors.

No declared source is opened: `stand_ins` removes the sources from the declaration before anything
runs, so engines can read only the stand-ins. This is why `truth` may read exact answers of an
engine, which outside this package only `noise` may do.
"""
