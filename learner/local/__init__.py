"""Actors on this machine: child processes, or in turns with training."""
