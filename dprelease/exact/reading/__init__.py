"""Sources as tables of the engine: files, frames and relations, and their formats."""
