"""Changed streaming queries with constants: drawn, run, and computed by plain Python."""
