"""Produce.

- `produce`           the handler: checks, appends, answers
- `repeated`          partitions that a request names more than once
- `versions`          what versions of the request may carry, and how much work records are; pure
- `answering`         errors of partitions, and the throttle time
- `authorization`     what the client may write to
- `admission`         whether a transaction covers the partitions of the batches
- `deferred`          records that a worker prepares before they are appended
- `delayed_produce`   a request that waits for its high watermarks
- `produce_legacy`    message sets of older formats (v0, v1)
- `rejected_batches`  the records because of which a batch was refused (KIP-467)
"""
