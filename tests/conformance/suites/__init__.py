"""The test suites that clients of HiveServer2 bring with them, through the endpoint of a session."""
