"""Persons by area, sex and age group: the example of the tutorial."""
