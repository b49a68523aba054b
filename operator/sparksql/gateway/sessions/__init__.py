"""Sessions of clients inside the driver: who came through which door, and what they run."""
