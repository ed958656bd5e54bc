"""The only stage that has access to true values and to randomness.

Its inputs are exact integers from an engine, one for each cell, and a source of random bits. Its
outputs are noised, and may be passed to all other stages. No other stage imports exact results and
random bits together, which contracts in `pyproject.toml` enforce. So a reviewer who looks for leaks
reads this folder.
"""
