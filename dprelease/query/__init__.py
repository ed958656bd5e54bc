"""What is asked: aggregates with proven limits over public keys."""
