"""The life of an operation, from its request to its end: FLIP-91's states, threads, slots and events.

Nothing here knows Spark.
"""
