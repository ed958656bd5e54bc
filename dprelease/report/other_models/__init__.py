"""Reports on releases of single records, and on the messages of one of several parties."""
