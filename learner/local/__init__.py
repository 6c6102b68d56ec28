"""Actors on this machine: child processes, or players that take turns with training."""
