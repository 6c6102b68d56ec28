"""Status, screen, panel and metrics."""
