"""What the gateway and the front have in common: clients' protocols as data, and the bounds of connections."""
