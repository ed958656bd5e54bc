"""Statistics of several columns: covariances, correlations and linear regressions."""
