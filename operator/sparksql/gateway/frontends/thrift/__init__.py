"""The HiveServer2 frontend: TCLIService over SASL PLAIN and TLS, on the same session service as the other frontends.

Why not Spark's own HiveThriftServer2, which would run in the same JVM: it has no hook for what a session promises whatever its
statements come through, the class's policy, slots shared with every other client, quotas, results that spill to disk, masked
secrets and the audit log. Each would be JVM code of our own against Spark's internals, to be carried from version to version.
"""
