"""Helpers of the tests: our own broker as a process."""
