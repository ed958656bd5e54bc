"""Start Spark sessions, make them private, and refuse sessions that lack what tasks need."""
