"""The treasure hunt with steps of 5 ms, so that runs leave the processor to others.

`--import calm_hunt` registers it.
"""

import time
from typing import Any

from pettingzoo import register
from treasurehunt import TreasureHunt

STEP_S = 0.005


class CalmHunt(TreasureHunt):  # type: ignore[misc]
    """A treasure hunt with turns that hardly use the processor."""

    def step(self, actions: dict[str, int]) -> Any:
        """Wait, and move every agent."""
        time.sleep(STEP_S)
        return super().step(actions)


register("parallel", "tests/calm_hunt_v0", CalmHunt)
