"""What data catalogues and registries are told of a release."""
