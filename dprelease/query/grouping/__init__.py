"""The keys by which rows are grouped: public keys, private keys, and keys of consistent tables."""
