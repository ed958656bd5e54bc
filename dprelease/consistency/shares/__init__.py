"""Find optimal shares of a budget for declared aims, with a certificate of optimality.

    design            tables that may be measured at each level, their cost, and variances of
                      estimates in each class of equivalent areas
    optimum           variances as functions of shares, the search, and a lower bound for all shares
    targets           entry points for plans: least mean variance, least greatest variance, least
                      budget

The search uses floats. Its result is rounded shares, which a plan records. The privacy guarantee
does not depend on them.
"""
