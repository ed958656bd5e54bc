"""Services of the operating system: file locks, renames, forks, signals, and bounded reads."""
