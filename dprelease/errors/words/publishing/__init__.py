"""Catalogue: releases after their tables are computed, from their files to their readers."""
