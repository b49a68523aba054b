"""Checks manifests without a cluster: what API server, operator and Spark's parser would refuse, and where it stands."""
