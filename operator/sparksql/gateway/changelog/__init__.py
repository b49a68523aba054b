"""Changes of a table as rows that take back and add, and queries over them: aggregates, joins and rows to upsert."""
