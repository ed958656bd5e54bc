"""What an engine found: true numbers, which `noise` alone reads."""
