"""Demonstrations: trajectories of other runs and datasets as a second source of batches."""
