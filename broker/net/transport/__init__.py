"""How a connection's bytes travel.

- ``interface``  what reader and writer ask of a transport
- ``plain``      a TCP socket; slices of files go out by ``sendfile``
"""
