"""What is computed from noised values alone: derived columns, margins of error, order, clamping.

Nothing here imports an engine, an exact result or a source of bits, so nothing that stands here
can cost privacy.
"""
