"""The relay between actors and learners."""
