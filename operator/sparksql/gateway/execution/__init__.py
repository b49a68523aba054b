"""One operation in Spark: what is done for each kind of statement, and what is looked at without doing it."""
