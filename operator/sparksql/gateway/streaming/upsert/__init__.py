"""`spec.streaming.upsert`: each batch's changes, brought into a table by its keys."""
