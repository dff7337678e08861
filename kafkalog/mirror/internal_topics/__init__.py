"""The topics in which a mirror stores what it has done, under the names and in the formats of MirrorMaker 2.

- `stored`    reads the positions, offset syncs and checkpoints that are stored
- `compacted` reads a compacted topic from its beginning to its end
- `formats`   the records of these topics as bytes. Pure.
- `runs`      where more records are on both sides: headers of offset syncs. Pure.
- `topic_ids` of which topic, and of which leader epoch, something is: headers. Pure.
"""
