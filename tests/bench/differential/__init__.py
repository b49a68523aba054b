"""Acceptance programs: many random changes, histories and states, each compared with plain Python."""
