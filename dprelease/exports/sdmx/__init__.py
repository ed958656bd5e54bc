"""SDMX 3.0: identifiers, cubes, the message of their structures, the rows of their observations."""
