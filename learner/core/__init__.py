"""Training without sockets, threads or clocks: inserts, updates, pacing; and how it is built."""
