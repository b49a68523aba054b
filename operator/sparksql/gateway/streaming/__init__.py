"""Streaming statements: an INSERT that reads a STREAM, run as a Structured Streaming query until it is stopped.

`insert` reads the parsed INSERT and brings its query into the shape of the target, `sources` looks at what it streams,
`sinks` at where it writes and whether that is safe, `trigger` chooses when batches begin, `query` runs it.

`kafka` has tables of Kafka, `checkpoints` what is saved and copied, `state` what it means and which text may go on from it.
"""
