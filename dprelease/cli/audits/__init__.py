"""The command that audits releases."""
