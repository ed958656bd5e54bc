"""Plans of consistent tables: shares of the budget, expected errors, and their chart."""
