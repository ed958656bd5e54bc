"""Models of the files that commands write when they test a release."""
