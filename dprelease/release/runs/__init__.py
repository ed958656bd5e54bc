"""The steps between charge and publication, for each kind of release."""
