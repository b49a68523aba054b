"""Objects and snapshots for tests of decisions, one module per kind: each complete and ordinary until a test says otherwise."""
