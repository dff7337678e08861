"""Records that travel together.

- `batch`             a batch that fills up, and the futures of its senders
- `encoded_batch`     batches that a caller encoded
- `record_encoding`   from records to the bytes of a batch
"""
