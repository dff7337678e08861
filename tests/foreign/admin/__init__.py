"""Foreign admin clients and tools."""
