"""Brokers, or parts of brokers, in the test's process."""
