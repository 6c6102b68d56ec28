"""Kinds of rows: single transitions; sequences and trajectories have their place here."""
