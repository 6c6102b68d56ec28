"""The learner's side of the protocol: receiver, publisher, queue."""
