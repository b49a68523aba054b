"""Bounds of messages that must be known without the libraries of their protocol, which take a tenth of a second to load."""

MAX_MESSAGE_BYTES = 80 << 20  # of Spark Connect: clients before 4.1 send local data of up to 64 MiB within a plan
MAX_OPENING_BYTES = 128 << 10
"""Of a request whose session is not known yet, so that no right to it is checked: a name, and settings of a client's session.

All reviewed keys (`conf_keys.txt`) with a value of 40 characters each fit, in any protocol. Requests within a session have a
bound of their own.
"""
