"""Reconstruction: what an attacker makes of published tables about people whose truth is known.

Everything here is about stand-ins: it reads rehearsals, in which people are invented or public, and
refuses every other folder. What is solved sees published numbers alone; the truth is looked at when
the answer stands.
"""
