"""Writes the state of a streaming query anew for a text that has other aggregates; see `state.rewriting` for which."""
