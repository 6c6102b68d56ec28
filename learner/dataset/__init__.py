"""Runs as datasets for other programs: episodes from a journal, and the files that hold them."""
