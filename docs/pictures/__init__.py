"""Pictures of the manual, and the scripts that draw them."""
