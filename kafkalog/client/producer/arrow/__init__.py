"""Sending Arrow tables, without a Python object for each row. Needs pyarrow.

- `arrow_sender`         `Producer.send_arrow`: columns to record batches
- `arrow_rows`           rows in Arrow columns, cut and joined into chunks
- `partition_rows`       which topic and partition each row goes to
"""
