"""The source as Spark drives it, without a JVM, so that there can be many tests."""
