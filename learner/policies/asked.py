"""The options of an evaluation. `learner --help` reads them, so numpy is not imported."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from farflung.common.data.spec import LONGEST_EPISODE
from farflung.common.process.config import require

UNSHOWN = Parameter(show_default=False)
PLAIN = Parameter(negative=(), show_default=False)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The wishes for an evaluation."""

    episodes: int = 100
    """Episodes to play."""
    checkpoint: Annotated[str, UNSHOWN] = ""
    """best, last, a number, or an archived version as EPOCH.NUMBER (default: the best, or the last
    where no evaluation has ended)."""
    as_trained: Annotated[bool, PLAIN] = False
    """Explore as actors did under these weights, instead of the best action."""
    seed: int = 0
    """Root of start states and of exploration; another one has other episodes."""
    max_steps: int = LONGEST_EPISODE
    """Steps after which an episode is cut: a policy may never end one."""
    video: Annotated[Path | None, UNSHOWN] = None
    """File for a video (MP4) of the first episodes; needs farflung[video]."""
    video_episodes: int = 1
    """Episodes in the video."""
    render: Annotated[bool, PLAIN] = False
    """Show all episodes in a window instead."""

    def __post_init__(self) -> None:
        require(self.episodes >= 1, "--episodes must be at least 1")
        require(self.max_steps >= 1, "--max-steps must be at least 1")
        require(self.video_episodes >= 1, "--video-episodes must be at least 1")
        require(self.seed >= 0, "--seed must be at least 0")
        require(not (self.video and self.render), "--video and --render are two evaluations")
