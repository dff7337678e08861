"""The index files of a segment.

- `offset_index`          `.index`: from an offset to a position in the `.log` file
- `time_index`            `.timeindex`: from a timestamp to an offset
- `index_file`            a sparse file of sorted entries, which both of these are
- `segment_indexes`       the offset index and the time index of one segment, loaded on first use
- `transaction_index`     `.txnindex`: the aborted transactions of the segment
- `aborted_transactions`  a segment's use of its transaction index
"""
