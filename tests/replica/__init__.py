"""Partitions as replicas: roles, in-sync replicas, acknowledgements, and what waits for them."""
