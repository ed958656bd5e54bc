"""Shares of a budget that are best for declared aims, with a certificate.

    design            which tables may be measured at which level, at what price
    shapes            the areas as classes of equal ones
    shape_variances   variances of estimates on such classes, and their slopes
    jets              numbers with their slopes
    share_functions   variances as functions of shares
    optimum, barrier  the search, and what no shares can be better than
    targets           what a plan calls: least mean, least greatest, least budget

In floats: what comes out is rounded shares, which a plan records. Nothing private rests on them.
"""
