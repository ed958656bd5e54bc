"""What is done with a published release beside checks: sums, estimates, formats, signatures."""
