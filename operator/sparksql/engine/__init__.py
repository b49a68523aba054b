"""Level-triggered reconcile machinery: queue, store, loop. Knows no SQL and no Spark."""
