"""Replays: stores, rows and samplers."""
