"""Objects and snapshots for tests of the decisions, one module per kind: each complete and ordinary until a test says otherwise."""
