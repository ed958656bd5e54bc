"""Check signatures of releases and audits, and the audits that releases name."""
