"""Ways to authenticate, rights, and servers that ask for them."""
