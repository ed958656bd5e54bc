"""Messages for errors in declarations, and the parts of a declaration that remain valid."""
