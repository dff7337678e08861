"""The loops over records: kernels that numba compiles, and their twins in plain Python.

- `abi`       numbers that kernels and their callers share: positions of words and columns, status codes
- `compiled`  the kernels that numba compiles
- `plain`     the same loops in plain Python: they serve until the compiled ones are ready, and are the tests' oracle
- `checked`   the compiled kernels once more, with every access to memory checked: for tests with hostile bytes
- `loader`    compiles the kernels, or takes them from numba's disk cache

Importing this package and `loader` imports neither numba nor numpy.

**What a kernel takes.** Integers, and contiguous arrays of exactly the types in its module's ``SIGNATURES``; nothing is
compiled for other types. Bytes to read are read-only uint8 arrays (`validate_records` alone takes any buffer of bytes),
bytes to write are uint8 arrays. Counts, limits, sums and addresses are words: int64 arrays whose positions have names
in `abi`. A table is a two-dimensional int64 array with a row for each batch (`abi.table`). Addresses of memory stand in
words where the memory is Arrow's, or where records lie in one of several places; 0 says that there is none.

**Who owns memory.** The caller, always. It keeps alive what it passes, and what it names by address, until the call
returns. A kernel keeps no address and allocates nothing that outlives the call. What is written may be followed by up
to `abi.table.SLACK` bytes of rubbish, so the caller's memory is that much larger where the kernel's docstring says so.

**What a kernel answers.** A number or a tuple of numbers. Compiled code raises nothing: a status (`abi.status`, or
`abi.clean_layout` for log cleaning) says what is wrong, an index says where, and `abi.status.error_for` makes the error
of them. A kernel that does not know a batch, or finds it wrong, may also leave it to Python (`unpack_batches`).

**Kernels are pure.** They read and write what they were given, and nothing else: no files, clocks or Python objects,
and of globals constants only. They hold no lock and run without the GIL, so calls with different memory may run at the
same time.

**Bytes are hostile.** A position is compared with its section's end before anything is read there. Lengths are compared
with what is left, never added to a position first, so no sum overflows. The intrinsics compare nothing; `checked` shows
in tests that the kernels do.

**A new kernel** is a function with ``@njit(**OPTIONS)`` in a module of `compiled`, with its types in ``SIGNATURES``.
Its helpers are compiled with ``INNER`` or ``INLINE``. Its numbers go to `abi`, its twin to `plain`, its loading to
`loader`, a new module's name to `tests/support/checked_kernels.py`. A test gives hostile bytes to the twin and to the
checked kernel, and compares the answers. Memory that a kernel gets by address has to be lent to the checked one there.

**The cache on disk** is numba's, keyed by the kernel's file (its name, time and size), the types, the processor and the
versions of numba and Python. It lies beside the package, in the user's cache directory where that is read-only, or
where NUMBA_CACHE_DIR says. numba does not notice changes in other files: if you change a number in `abi`, an intrinsic,
or a module that other kernels' modules import (`compiled.unpacking`, `compiled.cleaning_parts`), change the files of
these kernels too, or delete the cache. Each state of the sources has a cache of its own for the checked build.
"""
