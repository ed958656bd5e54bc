"""Rehearse a whole release on synthetic people, and measure its errors.

No declared source is opened: `stand_ins` removes the sources from the declaration before anything
runs, so engines here can only reach the stand-ins. That is why `truth` may read exact answers of
an engine, which elsewhere only `noise` does.
"""
