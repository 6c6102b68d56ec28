"""Configuration, lifecycle, logs, errors and limits of a process."""
