"""Bytes that other implementations wrote, kept in the repository, and the scripts that made them."""
