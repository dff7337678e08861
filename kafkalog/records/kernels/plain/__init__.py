"""The kernels in plain Python. They serve until the compiled ones are ready, and are the oracle of the tests.

Each is written from the format and for clearness, not from its compiled twin; signatures and answers are the same.

- `reading`       validates produced batches, and reads the fields of one record
- `log_checking`  checks and counts what a log holds
- `log_cleaning`  compacts a log
- `upgrading`     makes a message set v0 or v1 records of v2
"""
