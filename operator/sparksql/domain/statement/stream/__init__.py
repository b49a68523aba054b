"""The life of a streaming statement: what it asks for, its savepoints, its changes, its health, and what follows from them."""
