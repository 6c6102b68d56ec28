"""Films as a player shows them."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from support.waiting import eventually

WITHIN_S = 30.0


def frames_of(path: Path) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return the facts about a film, and its frames, each [height, width, 3] uint8.

    The package grants its player 10 s to begin, on a busy machine too: then it is asked again.
    """
    from imageio_ffmpeg import read_frames  # an extra

    def read() -> list[Any]:
        with suppress(OSError):
            return [*read_frames(str(path))]
        return []

    facts, *frames = eventually(read, f"the frames of {path}", WITHIN_S)
    width, height = facts["size"]
    return facts, [np.frombuffer(frame, np.uint8).reshape(height, width, 3) for frame in frames]
