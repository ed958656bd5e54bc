"""Random releases about random tables: neighbours, twins, engines and checks, for as long as one likes."""
