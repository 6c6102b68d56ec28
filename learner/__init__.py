"""The learner: receives trajectories, keeps them, trains, and publishes versioned weights."""

import sys

import common

if not getattr(common, "FARFLUNG", False):  # said here, before its modules are missed one by one
    sys.stderr.write(f"learner: {common.__file__} hides our package of that name: rename it, start elsewhere, or shorten PYTHONPATH\n")
    raise SystemExit(78)
