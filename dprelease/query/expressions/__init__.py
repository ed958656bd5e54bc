"""Expressions and statements: functions of one row, by an allow-list on the parsed tree."""
