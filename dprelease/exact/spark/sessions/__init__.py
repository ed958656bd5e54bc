"""Start Spark sessions, make them private, and refuse those that lack what tasks need."""
