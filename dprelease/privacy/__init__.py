"""Privacy units, sensitivities, privacy losses, events and their composition."""
