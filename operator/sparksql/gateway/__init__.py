"""The SQL gateway of a driver pod: SQL over HTTPS in front of one Spark session, without knowledge of Kubernetes."""

from sparksql.logs import silence_grpc

silence_grpc()  # before any part imports it
