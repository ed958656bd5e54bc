"""What is wrong with a declaration, in its own words, and what is left of it beside that."""
