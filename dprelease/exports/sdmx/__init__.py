"""SDMX 3.0: identifiers, cubes, structures and statuses of observations."""
