"""The front: one address for the clients of all sessions. It keeps nothing, so that any replica may serve any request."""
