"""Algorithms: a policy, a replay, a loss and an optimizer step behind one small protocol."""
