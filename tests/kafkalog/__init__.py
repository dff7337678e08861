"""Tests of what the broker, clients and Spark share, and of the clients and their commands."""
