"""Training from Python: keyword settings, environments of one's own, callbacks, and the result."""
