"""Sessions of Spark: what they are made of, kept private, and refused without what tasks need."""
