"""The only stage where true values and randomness meet.

What comes in is exact (integers of an engine, one for each cell) and a source of bits; what goes
out is noised, and may go anywhere. No other stage imports both: contracts in `pyproject.toml` hold
the package to it, so a reader who looks for leaks has this folder to read.
"""
