"""Learners of one world started by one command: their processes, and one panel over all."""
