"""How many rows a write has changed."""
