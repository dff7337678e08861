"""Drivers, workers and brokers that are killed while Spark works."""
