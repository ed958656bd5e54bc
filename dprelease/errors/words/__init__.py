"""The catalogue: cause and fix of every code, a file for each part of the package."""
