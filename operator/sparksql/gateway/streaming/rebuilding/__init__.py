"""Computes the state of a streaming query anew from the history of its sources; see `state.rebuilding` for when."""
