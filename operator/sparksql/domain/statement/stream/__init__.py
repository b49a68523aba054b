"""The life of a streaming statement.

What it asks for, its savepoints, its changes, its health, and what follows from them.
"""
