"""Keys by which rows are grouped: public, private, or those of consistent tables."""
