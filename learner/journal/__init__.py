"""The journal: what was received is on disk before it is acknowledged, in the order in which it counts."""
