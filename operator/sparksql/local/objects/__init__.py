"""The objects of an instance and the rules of an API server by which they are written."""
