"""Certificates: proven upper bounds of the privacy cost of a release (`certify`)."""
