"""Policies out of runs: loaded, evaluated, filmed, exported."""
