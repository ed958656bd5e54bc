"""Claims of a release proved from above: `certify`."""
