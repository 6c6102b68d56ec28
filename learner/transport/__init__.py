"""Drivers of an endpoint: a network thread, or calls in one process."""
