"""Evaluations in a window: `--render`."""

from types import SimpleNamespace

import pytest
from support.learners import a_policy_run
from support.worlds import Window

from farflung.common.process.errors import ConfigurationError
from farflung.learner.policies import evaluating
from farflung.learner.policies.asked import Asked


def test_every_step_of_every_episode_is_shown(tmp_path, stop, monkeypatch):
    """One window plays all of them: the first state of each, and one more for each step."""
    monkeypatch.setattr(Window, "shown", [])
    monkeypatch.setenv("DISPLAY", ":0")
    run = a_policy_run(tmp_path, environment="toys/Window-v0")
    asked = Asked(episodes=3, max_steps=9, render=True)
    found = evaluating.evaluate(run, asked, stop, pytest.fail)
    assert len(found.results.returns) == 3
    steps = int(found.results.lengths.sum())
    assert steps + 3 <= len(Window.shown) <= steps + 4  # a fourth may have begun


@pytest.mark.parametrize("modes", [(), ("ansi", "rgb_array")])
def test_environment_without_a_window_is_named(modes):
    """With what films it instead."""
    shown = SimpleNamespace(metadata={"render_modes": modes}, render_mode=None)
    said = f"toys/X has no window: its render modes are {', '.join(modes) or 'none'}"
    with pytest.raises(ConfigurationError, match=said):
        evaluating.require_window(shown, "toys/X")
    shown.render_mode = "human"  # as of a wrapper that shows frames
    assert evaluating.require_window(shown, "toys/X") is shown


def test_session_without_a_screen_is_told(tmp_path, stop, monkeypatch):
    """It plays on: a world may show itself in other ways than in a window."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    said = []
    run = a_policy_run(tmp_path, environment="toys/Window-v0")
    asked = Asked(episodes=1, max_steps=5, render=True)
    evaluating.evaluate(run, asked, stop, lambda kind, text: said.append((kind, text)))
    ((kind, text),) = said
    assert kind == "--render"
    assert "no screen (DISPLAY is not set)" in text


@pytest.mark.parametrize(
    ("environ", "system", "told"),
    [
        ({}, "linux", True),
        ({"DISPLAY": ":0"}, "linux", False),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", False),
        ({"SDL_VIDEODRIVER": "dummy"}, "linux", False),
        ({}, "darwin", False),
    ],
)
def test_only_a_linux_session_may_lack_a_screen(environ, system, told):
    """Windows and macOS always have one."""
    assert bool(evaluating.unseen(environ, system)) is told
