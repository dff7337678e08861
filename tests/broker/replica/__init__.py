"""Tests of partitions as replicas: roles, in-sync replicas, acknowledgements, and waiting operations."""
