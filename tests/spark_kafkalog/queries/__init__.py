"""Queries in Spark: batches, streams, tables."""
