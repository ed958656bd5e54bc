"""Parts of a release file that have models, or meanings, of their own."""
