"""Worlds: environments behind one interface of seats."""
