"""The driver's JVM: started, configured, and reached through py4j."""
