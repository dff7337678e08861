"""Planning: pure functions over maps of offsets. They contact no broker; callers pass in what brokers answered.

- `start_and_end`  the limits that a user set, resolved to offsets
- `ranges`         which offsets a batch query or a micro-batch reads, and what was lost
- `admission`      how many offsets one trigger takes
- `byte_sizes`     estimates of bytes in a range, for limits in bytes
- `filter_bounds`  bounds on ranges, from filters that Spark pushes down
- `splitting`      ranges cut into tasks
"""
