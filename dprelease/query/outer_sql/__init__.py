"""Split SQL statements into private cores, and the statement over their noised tables."""
