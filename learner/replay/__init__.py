"""Replays: what a row is, and where rows are kept."""
