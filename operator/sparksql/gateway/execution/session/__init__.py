"""The base session of a driver: what makes it ready, and what statements change in it."""
