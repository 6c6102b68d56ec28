"""The run folder: journal, checkpoints, recovery, audit."""
