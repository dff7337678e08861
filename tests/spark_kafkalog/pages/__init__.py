"""Pages of docs/ and notebooks about Spark."""
