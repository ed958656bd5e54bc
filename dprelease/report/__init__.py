"""Make the report of a release: one HTML file for those who approve it and those who read it.

It is made from a release folder and from the results of its checks. This package reads no data
about people and imports no engine, no noise and no entropy.
"""
