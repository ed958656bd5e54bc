"""Operating-system services: locks that end with their holder, renames, forks, signals."""
