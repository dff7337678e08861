"""Log compaction (``cleanup.policy=compact``): of each key the latest record stays.

- ``selection``     which part of a log may be cleaned, how dirty it is, which log is cleaned next: pure
- ``grouping``      which segments become one: pure
- ``transactions``  which batches belong to aborted transactions, which markers have had their day: pure
- ``throttle``      how long to wait for a rate of bytes: pure
- ``config``        the settings of the cleaner
- ``job``           one log at one moment: what a worker needs to know of it
- ``clean``         cleaning one log, on a worker's thread: reads segments, writes replacements
- ``replacement``   the files of a replacement: written, made ready to be swapped in
- ``cleaner``       the threads that clean the dirtiest log, one after another, and their metrics

Which records stay is decided by `kafkalog.records.cleaning`; a log takes a replacement over in
`Log.replace_segments`, on the loop's thread.
"""
