"""The learner: receives trajectories, keeps them, trains, and publishes versioned weights."""
