"""Histories of concurrent clients of a broker that is killed, and a checker of what they saw."""
