"""Make the report of a release: one HTML file for people who approve or read the release.

The report is made from a release folder and from the results of its checks. This package reads no
data about people and imports no engine, no noise and no entropy.
"""
