"""The state of a savepoint as a table: the calls of `savepoint_state` in statements."""
