"""The symmetric alpha-stable distribution, with the characteristic function exp(-|t|^alpha).

The stability alpha lies in [1, 2]. `stable_tables` computes fast functions from tables, whose nodes
come from a contour integral without cancellation. `stable_balls` computes rigorous balls
and the asymptotic series of the tails, and `slope` a bound of the slope of the log density.
"""

from dprelease.numerics.stable.slope import central_log_slope_bound
from dprelease.numerics.stable.stable_balls import pdf_ball, sf_ball
from dprelease.numerics.stable.stable_tables import (
    LARGEST_ALPHA,
    QUANTILE_RELATIVE_ERROR,
    RELATIVE_ERROR,
    log_pdf,
    pdf,
    quantile,
    sf,
    tail_series,
)

__all__ = [
    "LARGEST_ALPHA",
    "QUANTILE_RELATIVE_ERROR",
    "RELATIVE_ERROR",
    "central_log_slope_bound",
    "log_pdf",
    "pdf",
    "pdf_ball",
    "quantile",
    "sf",
    "sf_ball",
    "tail_series",
]
