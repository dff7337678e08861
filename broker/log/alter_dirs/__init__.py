"""Moving a partition's log to another log directory of its broker, while it is served (KIP-113).

- `mover`       carries each move from its beginning to its end
- `plan`        what is to be copied next, when the copy may take the log's place, what a start finds: pure
- `extents`     the files of a log as they are at one moment
- `copier`      copies a log's files into a future directory, on a worker's thread
- `future_log`  one move under way
- `futures`     all moves under way, and where new partitions shall lie
- `startup`     what the start does with directories that unfinished moves left
- `moved_from`  the file that names the log directory from which a log was moved

A move makes `topic-partition.<32 hex>-future` in the target directory and copies the log's files into it byte for
byte, while the log is served from where it is. It copies whole segments first, and then what was appended meanwhile,
round by round. When little is left, flushes of the log are held, so that its recovery point stands still. The copy is
forced to the device up to there, and then marked as complete by the file `kafkalog.moved-from` in it, which names the
log directory that the log comes from. The last few bytes are copied on the event loop's thread, so that nothing can be
appended in between. Then the old directory is renamed to `…-delete` and the new one to `topic-partition`. Finally
the names are forced to the device and the marker file is removed.

A crash leaves one of the following, and never two logs that could both be served (`plan.settle`):

=====================  ===================================================================================
found                  meaning
=====================  ===================================================================================
old, future            the move was under way: it goes on with the segments that are complete
`-delete`, future    killed between the renames: the future copy, which is marked, is the log
old, new (marked)      power failed before the old one's new name was safe: the marked one is the log
new                    the move is complete
=====================  ===================================================================================
"""
