"""The Spark Connect frontend: a gRPC proxy with token, TLS and policy before Spark's own Connect service on loopback."""
