"""Try formats on blank tables, and bound their size, before any privacy budget is charged."""
