"""Runs in impyla's own environment, as a plugin of pytest: its tests give no password, and a session asks for a token."""

import functools
import os

import impala.dbapi

impala.dbapi.connect = functools.partial(impala.dbapi.connect, password=os.environ["ENDPOINT_TOKEN"])
