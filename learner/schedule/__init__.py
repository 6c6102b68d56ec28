"""Schedules: the order of inserts, updates and publications in each mode."""
