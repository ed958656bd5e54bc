"""Summaries: numbers of a group of cells, such as a Gini coefficient, from its noisy counts."""
