"""Self-play: the archive of versions, the games against opponents, ratings, and the pool."""
