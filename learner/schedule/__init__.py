"""Schedules: the order of inserts, updates and publications, and the goals that end a run."""
