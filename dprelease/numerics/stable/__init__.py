"""The symmetric alpha-stable distribution, characteristic function exp(-|t|^alpha).

alpha lies in [1, 2].

`law_tables` has float64 functions from tables, whose nodes come from a contour integral without
cancellation, `stable_balls` rigorous balls, `series` the asymptotic series of the tails, and
`slope` a bound of the slope of the log density.
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
