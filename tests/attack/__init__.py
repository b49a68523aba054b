"""Attacks on the front and on drivers from outside, as programs."""
