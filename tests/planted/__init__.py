"""Faults that are planted, one at a time, into a copy of the package: who finds them?"""
