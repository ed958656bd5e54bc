"""The only stage in which true values and randomness meet.

Its inputs are exact integers of an engine, one per cell, and a source of random bits. Its outputs
are noised and may be passed anywhere. No other stage imports both, which contracts in
`pyproject.toml` enforce. So this folder is the one to read when looking for leaks.
"""
