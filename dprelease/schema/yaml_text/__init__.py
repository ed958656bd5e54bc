"""Texts of declarations: YAML read strictly, and what is wrong with one that is none."""
