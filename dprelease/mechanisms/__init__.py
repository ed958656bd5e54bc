"""One file per mechanism, found by walking this folder."""
