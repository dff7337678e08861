"""The kernels in plain Python. They are used until the compiled ones are ready, and are the oracle of the tests.

Each is written from the format and for clarity, not from its compiled twin; signatures and results are the same.

- `reading`       validates produced batches, and reads the fields of one record
- `log_checking`  checks and counts what a log holds
- `log_cleaning`  compacts a log
- `upgrading`     turns message sets v0 and v1 into records of v2
"""
