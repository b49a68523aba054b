"""Bounds of messages that must be known without the libraries of their protocol, which take a tenth of a second to load."""

MAX_MESSAGE_BYTES = 80 << 20  # of Spark Connect: clients before 4.1 send local data of up to 64 MiB within a plan
