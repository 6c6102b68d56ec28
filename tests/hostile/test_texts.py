"""Texts that forge lines of a log and steer terminals, at a real learner and a real broker."""

import re
import sys
from pathlib import Path

import pytest
from hostile import attacks
from hostile.attacking import AT_BOTH
from hostile.victim import victim
from support.waiting import run_to_end

pytestmark = [pytest.mark.system, pytest.mark.slow]

ATTACK_S = 2.0
LINE = re.compile(r"\d{4}-\d\d-\d\dT\S+Z (\w+) (\S+) ")
LOG_BYTES = 4 << 20  # of a log after the attack; before, each report was written in full


def writers(text: str) -> set[str]:
    """Return the writers that the lines of a log name; require that all others are indented."""
    found = set()
    for line in text.split("\n"):
        assert line.isprintable(), ascii(line[:300])
        if (begun := LINE.match(line)) is not None:
            found.add(f"{begun[1]} {begun[2]}")
    return found


@AT_BOTH
def test_texts_forge_no_line_and_steer_no_terminal(tmp_path, through):
    """Neither in the logs of learner and broker, nor on a screen, nor in a status."""
    direct, relayed = (0, 1) if through else (1, 0)
    with victim(tmp_path, broker=through, actors=direct, relayed=relayed) as target:
        with target.peer(through=through) as peer:
            attacks.load()["texts that forge and steer"].run(peer, ATTACK_S)
        learner = target.learner
        status = learner.shows(lambda status: any("mallory" in it for it in status.problems))
        assert all(problem.isprintable() for problem in status.problems)
        place = [f"{learner.address.host}:{learner.address.port}"]
        place += ["--feed-port", learner.address.feed_port]
        for form in ([], ["--json"]):
            shown = run_to_end([Path(sys.executable).parent / "learner", "status", *place, *form])
            assert shown.returncode == 0
            assert shown.stdout.rstrip("\n").isprintable()
        path = tmp_path / "runs" / "victim" / "logs" / "learner.log"
        log = path.read_text()
        assert "all is well" in log
        assert writers(log) == {f"learner victim[{learner.pid}]"}
        assert [line for line in log.split("\n") if not re.match(r"\d{4}-|  |$", line)] == []
        assert writers(learner.said) == {f"learner victim[{learner.pid}]"}
        assert path.stat().st_size < LOG_BYTES
        if target.broker is not None:
            assert "is not passed on" in target.broker.said
            assert len(writers(target.broker.said)) == 1
