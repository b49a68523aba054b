"""What holds at every level."""

import signal

# A shell that starts the tests in the background leaves SIGINT ignored, and every child would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
