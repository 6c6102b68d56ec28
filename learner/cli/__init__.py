"""Subcommands of `learner`."""
