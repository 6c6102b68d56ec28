"""The acting graph: export, tracing and proof."""
