"""A worker: an actor that keeps its rows, learns from them, and sends gradients."""
