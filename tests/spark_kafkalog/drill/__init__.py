"""Processes of the exactly-once drill."""
