"""The life of a streaming statement: its settings, savepoints, changes and health, and what follows from them."""
