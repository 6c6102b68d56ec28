"""Acting at a fixed rate: the clock, the step thread, and the work beside it."""
