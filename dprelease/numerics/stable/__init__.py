"""The symmetric alpha-stable law with characteristic function exp(-|t|^alpha), alpha in [1, 2].

Float64 functions from tables (`tables`), whose nodes come from a contour integral without
cancellation (`contour`), and rigorous balls (`balls`).
"""

from dprelease.numerics.stable.law_tables import (
    LARGEST_ALPHA,
    QUANTILE_RELATIVE_ERROR,
    RELATIVE_ERROR,
    log_pdf,
    pdf,
    quantile,
    sf,
    tail_series,
)
from dprelease.numerics.stable.slope import steepest
from dprelease.numerics.stable.stable_balls import pdf_ball, sf_ball

__all__ = [
    "LARGEST_ALPHA",
    "QUANTILE_RELATIVE_ERROR",
    "RELATIVE_ERROR",
    "log_pdf",
    "pdf",
    "pdf_ball",
    "quantile",
    "sf",
    "sf_ball",
    "steepest",
    "tail_series",
]
