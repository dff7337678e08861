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
- `_check_layout`  numbers shared with the checking kernel
- `_clean_layout`  numbers shared with the cleaning kernels
- `_columns`       growing columns in Arrow's layout
- `_encode`        Arrow columns to record batches
- `_intrinsics`    loads, stores and calls of compiled kernels
- `_numba`         compiled kernels that read
- `_numba_check`   the compiled kernel that checks a log
- `_numba_clean`   compiled kernels of log cleaning
- `_numba_rows`    compiled kernels that tell where rows go
- `_numba_text`    the compiled kernel that looks at text
- `_numba_unpack`  the compiled kernel that decompresses batches
- `_numba_upgrade`  the compiled kernel that upgrades message sets
- `_numba_write`   the compiled kernel that writes
- `_plain`         the reading kernels in plain Python
- `_plain_check`   the checking kernel in plain Python
- `_plain_clean`   the cleaning kernels in plain Python
- `_plain_upgrade`  the upgrading kernel in plain Python
- `_scratch`       memory that batches are decompressed to
- `_upgrade_layout`  numbers shared with the upgrading kernel
- `allocator`      a setting of the C library
- `checking`       checks of what a log holds
- `cleaning`       log compaction over bytes
- `json_text`      whether values can stand in a JSON document
- `kafka_0_7`      messages of Kafka 0.7
- `native`         addresses of C functions that kernels call
- `status`         what kernels answer, and the errors it stands for
- `table`          what kernels and their callers share
- `varint`         variable-length integers
- `warm`           compiling the kernels ahead
"""
