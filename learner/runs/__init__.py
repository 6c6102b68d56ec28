"""Runs read from their folders: listed and compared. Nothing here imports torch."""
