"""Rehearse a whole release on synthetic people, and measure its errors.

A rehearsal opens no declared source: the module `stand_ins` removes the sources from the
declaration before anything runs, so that engines can read only the stand-ins. For this reason the
module `truth` may read the exact answers of an engine, which outside this package only the package
`noise` may do.
"""
