"""The kernels that numba compiles. Importing a kernel's module imports numba; `loader` alone imports and compiles them.

- `intrinsics`    loads, stores, copies and calls at addresses; options of compilation
- `native`        addresses of the C functions that kernels call (imports no numba)
- `reading`       validates produced batches, scans fetches, decodes records into Arrow buffers
- `writing`       encodes rows of Arrow buffers as records
- `unpacking`     verifies and decompresses the batches of a fetch
- `log_checking`  checks and counts what a log holds
- `key_indexing`     takes the keys of a log into the offset map of log cleaning
- `batch_filtering`  log cleaning: finds which records stay, and writes what is left of batches
- `cleaning_parts`   what these two need: records, hashes of keys, cells of the map
- `upgrading`     makes a message set v0 or v1 records of v2
- `rows`          hashes keys, and sorts rows by their group
- `text`          looks at values that are JSON text
"""
