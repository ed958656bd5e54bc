"""Whole runs on synthetic people: on twins with the same bits, and with canaries."""
