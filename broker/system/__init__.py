"""The services that the broker asks of the operating system and of Python: threads, memory, and its output.

- `workers`         threads for work that would block the event loop
- `page_cache`      whether bytes of a file are in the page cache, and reading them into it
- `announcing`      prints the line by which a server tells that it is ready
- `collector`       holds back the full collections of the garbage collector
- `compiler_pages`  gives back the memory of the compiler once the kernels are loaded
"""
