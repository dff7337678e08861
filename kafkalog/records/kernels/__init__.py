"""The loops over records: kernels that numba compiles, and their twins in plain Python.

- `abi`       numbers that kernels and their callers share: positions of words and columns, status codes
- `compiled`  the kernels that numba compiles
- `plain`     the same loops in plain Python: used until the compiled ones are ready, and the oracle of the tests
- `checked`   the compiled kernels once more, with every access to memory checked: for tests with hostile bytes
- `store`     compiled kernels on disk: files that are found, or made by child processes
- `loader`    loads groups of kernels on request

Importing this package and `loader` imports neither numba nor numpy.

**Arguments.** A kernel takes integers, and contiguous arrays of exactly the types in its module's `SIGNATURES`; it is
compiled for no other types. Bytes to read are read-only uint8 arrays (only `validate_records` takes any buffer of
bytes), bytes to write are uint8 arrays. Counts, limits, sums and addresses are words: int64 arrays whose positions have
names in `abi`. A table is a two-dimensional int64 array with a row for each batch (`abi.table`). Words hold addresses
of memory where the memory is Arrow's, or where records may lie in one of several places; 0 means none.

**Memory belongs to the caller.** The caller keeps alive the arrays that it passes, and the memory behind addresses,
until the call returns. A kernel keeps no address and allocates nothing that outlives the call. A kernel may write up to
`abi.table.SLACK` bytes of garbage after its output, so the caller's memory must be that much larger where the kernel's
docstring says so.

**Results.** A kernel returns a number or a tuple of numbers. Compiled code raises nothing: a status (`abi.status`, or
`abi.clean_layout` for log cleaning) says what is wrong, an index says where, and `abi.status.error_for` turns both into
an error. A kernel that does not support a batch, or finds it wrong, may also leave it to Python (`unpack_batches`).

**Kernels are pure.** They read and write their arguments, and nothing else: no files, clocks or Python objects, and of
globals only constants. They hold no lock and run without the GIL, so calls with different memory may run at the same
time.

**Bytes are hostile.** A position is compared with its section's end before anything is read there. Lengths are compared
with the remaining bytes, never added to a position first, so no sum overflows. The intrinsics compare nothing;
`checked` verifies in tests that the kernels do.

**A new kernel** is a function with `@njit(**OPTIONS)` in a module of `compiled`, with its types in `SIGNATURES`.
Its helpers are compiled with `INNER` or `INLINE`. Its numbers go to `abi`, its twin to `plain`, its name to a group of
`store.groups`, a new module's name to `tests/support/sources/checked_kernels.py`. A test gives hostile bytes to the
twin and the checked kernel, and compares the results. The test must lend the checked kernel the memory that the kernel
gets by address.

**Files of compiled kernels** are named for the processor and for a digest of the versions and of all sources that
kernels are made of (`store.fingerprint`), so a change of any of these makes new files. If a kernel imports a module of
`kafkalog.records` that none did before, add it to `FORMATS` there. The checked build uses numba's own cache; each state
of the sources has one.
"""
