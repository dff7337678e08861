"""The directory that loads write: `TOPIC/load=N/` with data files and `_offsets.json`, published by one rename.

- `file_names`        names of directories and files
- `offsets_document`  `_offsets.json`, the only state
- `staging`           directories of runs that are not published yet, their leases, and removal of dead ones
- `published`         the published loads of a topic, and publishing the next one
"""
