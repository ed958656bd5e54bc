"""P(K = k) of every law from its definition, written apart from the code under test.

One module for each mechanism, named like it, with `mass(law, k)`: a ball at the precision of the
flint context.
"""
