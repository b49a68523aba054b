"""The protocol between the operator and a session's gateway: JSON over HTTPS, shared by both sides as pydantic models."""
