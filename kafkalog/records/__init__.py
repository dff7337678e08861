"""Record batches: their bytes, codecs and checksums, and the way between them and Arrow.

Bytes and values in, bytes and values out: no sockets, files or clocks, and no imports of the rest of the
product.

- `batch`        record batch v2, the format's specification; single records
- `message_set`  formats v0 and v1; `any_format` what a log holds of whatever format; `convert` between formats;
                 `upgrade` a compressed set to v2 in one pass
- `compression`  gzip, snappy, lz4, zstd with bounded results; `checksum` CRC-32C
- `peek`         what produced records are, by their first bytes
- `validate`     what a leader checks of a produced batch
- `arrow`        whole fetches of batches to Arrow columns and back (needs pyarrow)
- `grouping`     where rows go: hashes of keys, rows by group (needs pyarrow)
- `kernels`      the loops over records, compiled by numba when asked, plain Python until then
- `control`      control records, transaction markers
- `errors`       what can be wrong
"""
