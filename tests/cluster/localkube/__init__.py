"""A real Kubernetes for development, tests and the demo. Standard library only: it runs before any virtual environment exists."""
