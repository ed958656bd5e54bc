"""Compute integer tables (layer 2), from the estimates (layer 1) and their variances.

decisions             without data: which tables are computed how, in which order, and the cliques
                      of which all declared tables are sums
least_squares         the children of an area by least squares over all measured tables:
nearest_tables          the non-negative tables nearest to the estimates, as real numbers
controlled_rounding     rounded to integers, with small errors in all measured tables
nested_tables         the fast method: one table after another along a chain of nested tables
allotment               the nearest integers with a given sum, or tables with given margins
"""
