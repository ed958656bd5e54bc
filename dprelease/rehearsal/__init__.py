"""Rehearsals: a whole release about people who were invented, with the errors that it makes.

No declared source is opened: `stand_ins` takes the sources out of the declaration before anything
runs, so what is asked of engines here can reach nothing but what stands in for them. That is why
`truth` may read what an engine found, as elsewhere `noise` alone does.
"""
