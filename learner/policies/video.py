"""Videos of episodes: frames that an environment renders, as H.264 that ordinary players open."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from farflung.common.process import atomic_file
from farflung.common.process.errors import ConfigurationError

Environment = Any  # a user's

USUAL_FPS = 30.0  # where an environment names no rate
LEAST_SIDE = 16  # pixels; encoders refuse less


class Film:
    """A file of frames. It is there whole after `close`, or not at all."""

    def __init__(self, path: Path, fps: float) -> None:
        self.frames = 0
        self._path, self._fps = path, fps
        self._draft = path.with_name(f".{path.name}.{os.getpid()}{atomic_file.DRAFT}")
        self._encoder: Any = None
        self._size = (0, 0)
        require_encoder()
        if not path.parent.is_dir():
            raise ConfigurationError(f"--video {path}: there is no folder {path.parent}")

    def add(self, frame: np.ndarray) -> None:  # [height, width, 3] uint8
        """Add a frame. Each has the size of the first."""
        frame = even(frame)
        size = frame.shape[1], frame.shape[0]
        if self._encoder is None:
            self._encoder, self._size = self._begun(size), size
        if size != self._size:
            raise ConfigurationError(f"frames of {self._size} and {size} cannot be in one video")
        self._encoder.send(np.ascontiguousarray(frame))
        self.frames += 1

    def close(self) -> None:
        """Write the rest, and let the file have its name."""
        if self._encoder is not None:
            self._encoder.close()
            self._encoder = None
            atomic_file.sync(self._draft)
            self._draft.rename(self._path)
            atomic_file.sync(self._path.parent)

    def abandon(self) -> None:
        """Remove a file that was not closed."""
        if self._encoder is not None:
            self._encoder.close()
        self._draft.unlink(missing_ok=True)

    def _begun(self, size: tuple[int, int]) -> Any:
        import imageio_ffmpeg

        encoder = imageio_ffmpeg.write_frames(
            str(self._draft),
            size,
            fps=self._fps,
            codec="libx264",
            pix_fmt_in="rgb24",
            pix_fmt_out="yuv420p",  # all that players of phones and browsers decode
            macro_block_size=2,
            ffmpeg_log_level="error",
            output_params=["-movflags", "+faststart", "-f", "mp4"],
        )
        encoder.send(None)
        return encoder


class Camera:
    """An environment of which the first episodes are filmed. All else passes through."""

    def __init__(self, environment: Environment, film: Film, episodes: int) -> None:
        self.problem: Exception | None = None  # an environment that cannot render
        self._environment, self._film = environment, film
        self._left = episodes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._environment, name)

    def reset(self, **options: Any) -> Any:
        """Begin an episode, and film its first frame."""
        begun = self._environment.reset(**options)
        self._shoot()
        return begun

    def step(self, action: Any) -> Any:
        """Step, and film what is seen then."""
        outcome = self._environment.step(action)
        self._shoot()
        if outcome[2] or outcome[3]:
            self._left -= 1
        return outcome

    def _shoot(self) -> None:
        if self._left <= 0 or self.problem is not None:
            return
        try:
            self._film.add(rgb(self._environment.render()))
        except Exception as error:  # a user's code, or the encoder
            self.problem = error


def rgb(frame: Any) -> np.ndarray:
    """Return a rendered frame [height, width, 3] uint8, or refuse it."""
    found = np.asarray(frame)
    if found.dtype != np.uint8 or found.ndim != 3 or found.shape[2] != 3:
        raise ConfigurationError(
            f"it renders {found.dtype} {found.shape}, and a video takes uint8 (height, width, 3)"
        )
    return found


def even(frame: np.ndarray) -> np.ndarray:  # [height, width, 3]
    """Return a frame with even sides, as H.264 wants them: its last row or column is repeated."""
    height, width = (max(LEAST_SIDE, side + side % 2) for side in frame.shape[:2])
    grown = (0, height - frame.shape[0]), (0, width - frame.shape[1]), (0, 0)
    return np.pad(frame, grown, mode="edge")


def require_encoder() -> None:
    """Refuse a video where the extra is not installed."""
    try:
        import imageio_ffmpeg
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"--video needs the package {error.name}: pip install 'farflung[video]'"
        ) from error
    _ = imageio_ffmpeg


def rate(environment: Environment) -> float:
    """Return the frames per second that an environment names."""
    named = getattr(environment, "metadata", {}).get("render_fps") or USUAL_FPS
    return float(named)
