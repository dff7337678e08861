"""Batches to send to the target, made of fetched bytes.

- `size_limits` finds out how large joined batches may be

Pure:

- `batches`     makes batches of fetched bytes
- `joining`     joins small batches
- `limiter`     limits the bytes a second
"""
