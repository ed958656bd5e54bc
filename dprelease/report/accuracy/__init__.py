"""How good published numbers are: expected and true errors, totals that disagree."""
