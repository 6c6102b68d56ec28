"""The rollout worker: steps environments, acts, and sends trajectories to a learner."""
