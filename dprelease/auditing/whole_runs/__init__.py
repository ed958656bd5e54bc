"""Whole runs about invented people: on twins with the same bits, and with canaries."""
