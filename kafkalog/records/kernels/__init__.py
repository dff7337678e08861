"""The loops over records: kernels that numba compiles, and their twins in plain Python.

- `loader`    compiles the kernels, or takes them from numba's disk cache
- `abi`       the numbers that kernels and their callers share: positions of words and columns, status codes
- `compiled`  the kernels that numba compiles
- `plain`     the same loops in plain Python: they serve until the compiled ones are ready, and are the tests' oracle

Importing this package imports neither numba nor numpy.
"""
