"""Sweeps: trials of settings, each of which is an ordinary run. Optuna chooses and remembers."""
