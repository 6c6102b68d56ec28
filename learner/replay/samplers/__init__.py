"""Ways to choose the rows of a batch."""
