"""The manual is run as it stands, its links lead somewhere, and its reference follows from the code."""
