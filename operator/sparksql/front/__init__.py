"""The front: one address for the clients of all sessions. It keeps nothing, so that any replica may serve any request."""

from sparksql.logs import silence_grpc

silence_grpc()  # before any part imports it
