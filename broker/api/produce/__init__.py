"""Produce.

- ``produce``           the handler: checks, appends, answers
- ``delayed_produce``   a request that waits for its high watermarks
- ``produce_legacy``    message sets of older formats (v0, v1)
- ``rejected_batches``  which records a batch was refused for (KIP-467)
"""
