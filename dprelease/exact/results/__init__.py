"""Results of an engine: true numbers, which only `noise` reads."""
