"""Checks of what changes batches: normalisation, clipped rewards, demonstrations."""

import math
from typing import TYPE_CHECKING

from farflung.common.process.config import require

if TYPE_CHECKING:
    from farflung.learner.config import LearnerConfig


def check_batches(config: "LearnerConfig") -> None:
    """Refuse batches that could not be made as they were asked for."""
    require(0 <= config.clip_rewards < math.inf, "--clip-rewards must not be negative")
    require(
        config.algorithm != "bc" or bool(config.demos),
        "bc learns from demonstrations: name a run or a dataset with --demos",
    )
    rows = round(config.demo_share * config.batch_size)
    require(
        not config.demos or 1 <= rows <= config.batch_size,
        f"--demo-share {config.demo_share:g} of --batch-size {config.batch_size} are {rows} rows: "
        "a batch has from one of them to all",
    )
