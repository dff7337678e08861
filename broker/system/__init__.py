"""What the broker asks of the operating system: threads, and the memory that files take.

- ``workers``         threads for work that would block the event loop
- ``page_cache``      whether bytes of a file are in the page cache, and reading them into it
- ``compiler_pages``  gives back the memory of the compiler once the kernels are loaded
"""
