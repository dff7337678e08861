"""Compiled kernels on disk: found, or compiled in child processes and written, each set of kernels as one file.

- `groups`       which kernels are loaded together
- `processors`   the processors that kernels are compiled for, and which of them this one runs
- `fingerprint`  what a file must agree with: versions, and the text of the sources
- `bundle`       the form of a file, as bytes
- `places`       directories for files, their owners, locks, atomic writing
- `results`      what numba compiled, as bytes, and back (private names of numba)
- `compiling`    starts the child processes that compile
- `child`        what such a process runs
- `finding`      the way to a set of kernels: read a file, or compile and write one

numba's own cache is not used. It wants a writable directory even to read, it names files for the path of the sources,
it fails on a damaged index, it notices changes of one source file only, and processes that start together all compile.
Importing these modules imports neither numba nor numpy, except `results` and `child`.
"""
