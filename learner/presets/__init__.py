"""Settings that were measured, each as a TOML file, for `learner --preset NAME`."""
