"""Object stores and web servers: addresses without credentials, listings, reads."""
