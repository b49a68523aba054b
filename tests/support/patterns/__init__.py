"""Patterns of the tree, found in its source, and texts that make a pattern backtrack."""
