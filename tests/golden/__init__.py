"""Bytes that other implementations wrote, and the scripts that made them."""
