"""The frontend for clients of Flink's SQL Gateway: its released REST API, versions 1 to 4, over Spark SQL."""
