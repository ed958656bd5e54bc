"""What one run does between charge and publication, for each kind of release."""
