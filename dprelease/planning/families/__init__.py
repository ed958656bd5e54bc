"""Plans of tables that agree: shares of the budget, expected errors, and their chart."""
