"""The only stage that has access to both true values and randomness.

The inputs of this stage are exact integers from an engine, one for each cell, and a source of
random bits. Its outputs are noised, and all other stages may use them. Contracts in
`pyproject.toml` ensure that no other stage imports exact results and random bits together. So a
reviewer who looks for leaks reads this folder.
"""
