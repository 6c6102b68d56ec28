"""Videos: frames of the environment's own renderer, in a file that ordinary players open."""

import subprocess

import numpy as np
import pytest
from support.films import frames_of
from support.learners import a_policy_run

from farflung.common.process.errors import ConfigurationError
from farflung.learner.policies import evaluating, video
from farflung.learner.policies.asked import Asked

ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="the extra `video` is not installed")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A run in an environment that renders."""
    return a_policy_run(tmp_path_factory.mktemp("shown"), environment="toys/Shown-v0")


def film(run, path, stop, **wishes):
    """Evaluate a few episodes with a film of the first."""
    asked = Asked(**{"episodes": 3, "max_steps": 20, "video": path} | wishes)
    return evaluating.evaluate(run, asked, stop, pytest.fail)


def test_film_shows_each_step_of_the_first_episodes(shown, stop, tmp_path):
    """H.264 in yuv420p with even sides, at the environment's rate, one frame more than steps."""
    path = tmp_path / "a.mp4"
    found = film(shown, path, stop, episodes=1)
    facts, frames = frames_of(path)
    assert (facts["codec"], facts["pix_fmt"].split("(")[0]) == ("h264", "yuv420p")
    assert (facts["size"], facts["fps"]) == ((46, 34), 7.0)
    assert len(frames) == found.frames == 1 + found.results.lengths[0]
    assert frames[0][2, 2].min() > 240  # the bright bar at the top
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]
    longer = film(shown, path, stop, video_episodes=2)
    assert longer.frames > found.frames


def test_film_replaces_another_as_a_whole(shown, stop, tmp_path):
    """A film that fails leaves the one before it."""
    path = tmp_path / "a.mp4"
    path.write_bytes(b"the one before")
    other = video.Film(path, 7.0)
    other.add(np.zeros((20, 20, 3), np.uint8))
    other.abandon()
    assert path.read_bytes() == b"the one before"
    film(shown, path, stop)
    assert frames_of(path)[1]
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("raises", "cannot be filmed: the screen fell off the wall"),
        ("nothing", "cannot be filmed: it renders object"),
        ("lacks", r"pygame is not installed: pip install 'farflung\[video\]'"),
    ],
)
def test_environment_that_renders_nothing_is_named(tmp_path, stop, wrong, said):
    """At once, and nothing is left."""
    run = a_policy_run(
        tmp_path, environment="toys/Shown-v0", environment_arguments=(f"wrong={wrong}",)
    )
    with pytest.raises(ConfigurationError, match=said):
        film(run, tmp_path / "a.mp4", stop)
    assert not (tmp_path / "a.mp4").exists()
    assert not [*tmp_path.glob(".a.mp4*")]


def test_environment_without_frames_is_named(run_of, stop, tmp_path):
    """It has no render mode at all."""
    with pytest.raises(ConfigurationError, match="toys/Picture-v0 cannot be made"):
        film(run_of("stacked"), tmp_path / "a.mp4", stop)


def test_place_without_a_folder_is_refused(shown, stop, tmp_path):
    """Before an episode is played."""
    with pytest.raises(ConfigurationError, match="there is no folder"):
        film(shown, tmp_path / "nowhere" / "a.mp4", stop)


def test_missing_encoder_names_the_extra(shown, stop, tmp_path, monkeypatch):
    """The extra is what brings it."""
    monkeypatch.setitem(__import__("sys").modules, "imageio_ffmpeg", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'farflung\[video\]'"):
        film(shown, tmp_path / "a.mp4", stop)


def test_frames_of_two_sizes_are_refused(tmp_path):
    """One video has one size."""
    made = video.Film(tmp_path / "a.mp4", 7.0)
    made.add(np.zeros((20, 20, 3), np.uint8))
    with pytest.raises(ConfigurationError, match="cannot be in one video"):
        made.add(np.zeros((20, 22, 3), np.uint8))
    made.abandon()


@pytest.mark.parametrize(
    ("sides", "expected"), [((33, 45), (34, 46)), ((34, 46), (34, 46)), ((3, 400), (16, 400))]
)
def test_sides_are_made_even(sides, expected):
    """By repetition of the last row and column; the picture itself stays."""
    frame = np.arange(sides[0] * sides[1] * 3).astype(np.uint8).reshape(*sides, 3)
    found = video.even(frame)
    assert found.shape[:2] == expected
    assert (found[: sides[0], : sides[1]] == frame).all()
    assert (found[-1, : sides[1]] == frame[-1]).all()


def test_real_environment_is_filmed(run_of, stop, tmp_path):
    """CartPole draws a cart and a pole: three frames have its colours."""
    pytest.importorskip("pygame")
    path = tmp_path / "a.mp4"
    found = film(run_of("plain"), path, stop, episodes=1)
    _, frames = frames_of(path)
    assert len(frames) == found.frames > 5
    for frame in (frames[0], frames[len(frames) // 2], frames[-1]):
        pole = (abs(frame.astype(int) - [202, 152, 101]).max(axis=2) < 24).sum()
        cart = (frame.max(axis=2) < 24).sum()
        assert pole > 300
        assert cart > 500
    assert (
        subprocess.run(
            [ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", path, "-f", "null", "-"],
            capture_output=True,
            check=True,
        ).stderr
        == b""
    )
