"""The regular jobs of a mirror, which run beside the copying.

- `jobs`         runs jobs in a thread
- `checkpoints`  translates the positions of consumer groups, and commits them in the target
- `heartbeats`   writes signs of life

`topics.follower` has one more job: it copies configurations.
"""
