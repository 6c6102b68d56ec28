"""Acting: the checked graph, its session, and the choice of actions."""
