"""Training without sockets, threads or clocks: inserts, updates, pacing."""
