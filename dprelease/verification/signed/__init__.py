"""What others vouch for: signatures of releases and of audits, and audits that a release names."""
