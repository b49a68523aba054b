"""The Kubernetes side: a thin async client, status writes, events, the Lease and pure manifest builders."""
