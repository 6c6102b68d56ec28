"""Plain data: specs, trajectories, weights, seeds and names."""
