"""The format with PX files (PC-Axis)."""
