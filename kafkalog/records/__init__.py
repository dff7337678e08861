"""Record batches: their bytes, codecs and checksums, and the way between them and Arrow.

Bytes and values in, bytes and values out: no sockets, files or clocks, and no imports of the rest of the product.

The formats:

- `batch`        record batch v2, the format's specification; single records
- `varint`       variable-length integers
- `control`      control records, transaction markers
- `legacy`       message sets v0 and v1, Kafka 0.7, conversion between formats
- `any_format`   the batches of a log, whichever formats it holds
- `stretches`    cuts a chunk between its batches
- `renumbering`  other offsets for the records of a batch, without decoding them
- `peek`         the format, codec and transaction that produced records claim, from their first bytes
- `errors`       what can be wrong with record bytes

What formats need:

- `compression`  gzip, snappy, lz4, zstd with bounded results
- `checksum`     CRC-32C

What is done with batches:

- `validate`     a leader's checks of a produced batch
- `checking`     checks of a log's batches, many in one call (needs numpy)
- `cleaning`     log compaction over bytes (needs numpy)
- `arrow`        whole fetches of batches to Arrow columns and back (needs pyarrow)
- `kernels`      the loops over records, compiled by numba or in plain Python
- `warm`         the command that compiles the kernels ahead
"""
