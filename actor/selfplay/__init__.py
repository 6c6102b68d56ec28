"""Games against the opponents of a pool: scripts, random actions, archived versions."""
