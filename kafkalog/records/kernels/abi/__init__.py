"""The numbers that kernels and their callers share.

- `status`          status codes, and the errors that they stand for
- `table`           the table of batches; words of the decoding, unpacking and encoding kernels
- `check_layout`    counts of the kernel that checks a log
- `clean_layout`    words and statuses of the kernels of log cleaning
- `hash_layout`     words of the kernel that hashes keys
- `upgrade_layout`  words of the kernel that upgrades message sets
"""
