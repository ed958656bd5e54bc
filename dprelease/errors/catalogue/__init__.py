"""The catalogue of errors: cause and fix of every code, one module for each exception class."""
