"""Verify existing releases, sum the messages of parties, and compute estimates from records.

The package reads only a published folder, and optionally a ledger. `second_opinion` computes the
privacy cost of the published noise by another method than the plan, and imports nothing from
`planning`.
"""
