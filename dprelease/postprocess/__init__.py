"""Post-processing of noisy values: derived columns, margins of error, order and clamping.

No module here imports an engine, an exact result or a source of bits, so no code here can cost
privacy.
"""
