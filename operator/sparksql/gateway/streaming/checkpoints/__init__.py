"""Checkpoints and savepoints: who writes one, copies of it, and their removal."""
