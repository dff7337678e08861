"""The regular jobs of a mirror, which run beside the copying.

- `jobs`             runs jobs in a thread
- `checkpoints`      translates the positions of consumer groups
- `group_positions`  commits them in the target, and brings back into the source what groups reach there
- `marks`            remembers which positions in the target are the mirror's own
- `target_logs`      tells what an offset of the target can still mean
- `refusals`         leaves out groups that a cluster refuses to tell about, or whose broker does not answer
- `heartbeats`       writes signs of life

`topics.follower` has one more job: it copies configurations.
"""
