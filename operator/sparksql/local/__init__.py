"""Local mode: the operator's controllers and a session's driver on one machine, without a cluster.

Two things stand in for Kubernetes: an object store for the API server (`objects`, `client`), a process manager for the kubelet
(`pods`). Controllers, domain and gateway are the same code. Nothing outside this package but the CLI imports it.
"""
