"""Documents on the outcomes of audits."""
