"""The results of benchmarks, as values and as files.

- `findings`  what a benchmark hands over: its results, each with name, unit and medians
- `outcomes`  the results as files, with when, where and how they were measured
"""
