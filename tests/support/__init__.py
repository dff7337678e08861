"""Helpers of the tests, such as our broker as a process."""
