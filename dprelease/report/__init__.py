"""The report: one HTML file about a release, for those who agree to it and those who read it.

Made from a release folder and from what is given to it, as the outcome of its checks; reads no data
about people, imports no engine, no noise and no entropy.
"""
