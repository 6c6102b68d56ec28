"""Farflung: far-flung actors, one learner. Message-passing reinforcement learning over ZeroMQ."""
