"""SQL in manifests, read by Spark's parser as the gateway reads it."""
