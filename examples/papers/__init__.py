"""The results of three papers, computed again with the package."""
