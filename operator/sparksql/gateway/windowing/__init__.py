"""Windows and what is built on them: table functions in Flink's words, distinct counts and first rows of windows in streams."""
