"""The subcommands of `learner` as functions."""

import sys
from types import ModuleType

import pytest

from farflung.learner.cli import commands
from farflung.learner.observe import watch
from farflung.learner.observe.watch import Unhealthy


def test_status_asks_the_address_it_is_given(monkeypatch):
    """Host, port and feed port reach the watcher, and progress is exit code 0."""
    asked = []
    monkeypatch.setattr(
        watch,
        "watch",
        lambda context, address, stream, as_json, keys, stalled_s: asked.append(
            (address, as_json, stalled_s)
        ),
    )
    assert commands.status("box:7000", feed_port=7005, json=True, stalled_after=7) == 0
    ((address, as_json, stalled_s),) = asked
    assert (address.host, address.port, address.feed_port, as_json, stalled_s) == (
        "box",
        7000,
        7005,
        True,
        7,
    )


def test_no_progress_is_exit_code_1(monkeypatch):
    """A health check reads it."""

    def silent(*arguments, **options):
        raise Unhealthy("nothing heard")

    monkeypatch.setattr(watch, "watch", silent)
    with pytest.raises(Unhealthy) as raised:
        commands.status()
    assert raised.value.exit_code == 1


def test_self_test_gives_its_exit_code(monkeypatch):
    """A supervisor sees it."""
    module = ModuleType("farflung.learner.cli.self_test")
    module.self_test = lambda stream, say: 4 if stream is sys.stdout else 5
    monkeypatch.setitem(sys.modules, "farflung.learner.cli.self_test", module)
    assert commands.self_test() == 4


def test_audit_hands_on_what_is_asked(monkeypatch, tmp_path):
    """The run, the files and the actor; its exit code is the command's."""
    module = ModuleType("farflung.learner.storage.audit")
    module.audit = lambda run, against, actor, stream: (run, against, actor, stream is sys.stdout)
    monkeypatch.setitem(sys.modules, "farflung.learner.storage.audit", module)
    assert commands.audit(tmp_path, against=(tmp_path / "a",), actor="box-1") == (
        tmp_path,
        (tmp_path / "a",),
        "box-1",
        True,
    )


def test_a_run_resumed_by_its_folder_brings_its_settings(tmp_path):
    """Unless a file is named; `auto`, a subcommand and a fresh start bring none."""
    from farflung.learner.main import with_own_settings

    settings = tmp_path / "config.toml"
    settings.touch()
    words = ["--resume", str(tmp_path), "--port", "0"]
    assert with_own_settings(words) == [*words, "--config", str(settings)]
    for words in (
        [],
        ["--resume", "auto"],
        ["status"],
        ["--resume", "runs/one", "--config", "mine.toml"],
    ):
        assert with_own_settings(words) == words
