"""Optimal shares of a budget for declared aims, with a certificate.

    design            tables that may be measured at each level, and their cost
    shapes            the areas as classes of equivalent ones
    shape_variances   variances of estimates on such classes, and their slopes
    jets              numbers with their slopes
    share_functions   variances as functions of shares
    optimum, barrier  the search, and a lower bound for all shares
    targets           entry points for plans: least mean, least greatest, least budget

The search uses floats. Its result is rounded shares, which a plan records. The privacy guarantee
does not depend on them.
"""
