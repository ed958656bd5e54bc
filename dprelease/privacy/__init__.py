"""The vocabulary of privacy: units, sensitivities, losses, events and their composition."""
