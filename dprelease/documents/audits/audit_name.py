"""What the outcome of an audit is called; a release that names none loads no more of it."""

from __future__ import annotations

NAME = "audit.json"
"""Of the outcome, in the folder of an audit and in that of a release that names one."""

ENDING = ".sig"
"""What follows the name of an outcome's file in that of its signature."""
