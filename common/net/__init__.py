"""Addresses, sockets, keys, and the diagnosis of a silent address."""
