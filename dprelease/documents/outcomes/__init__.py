"""What commands that test a release write of what they found: models of their files."""
