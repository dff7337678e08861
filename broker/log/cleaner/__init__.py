"""Log compaction (`cleanup.policy=compact`): keep the latest record of each key.

- `log_cleaner`           the threads that clean the dirtiest log, one after another, and their metrics
- `selection`             which part of a log may be cleaned, how dirty it is, which log is next: pure
- `job`                   one log at one moment: what a worker needs to know of it
- `clean`                 cleans one log on a worker's thread: reads segments, writes replacements
- `grouping`              which segments become one: pure
- `cleaned_transactions`  which batches are of aborted transactions, which markers may be removed: pure
- `replacement`           the files of a replacement segment, written and made ready to be swapped in
- `throttle`              how long to wait to keep to a rate of bytes: pure
- `cleaner_config`        the settings of the cleaner

`kafkalog.records.cleaning` decides which records stay. A log takes over a replacement in `Log.replace_segments`, on the
event loop's thread.
"""
