"""Pods of an instance: processes of this machine in the place of a node's containers."""
