"""The actor's side of the connection to a learner."""
