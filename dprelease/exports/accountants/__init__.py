"""The noise of a release as the events of dp-accounting."""
