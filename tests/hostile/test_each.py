"""The lines of single attacks, their file, and their table."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hostile import attacks
from hostile.each import NotBegunError, require_begun
from hostile.lines import WAYS, Line, Lines, told
from support.waiting import PATIENCE_S, run_to_end

ROOT = Path(__file__).parents[2]
EACH = Path(__file__).parent / "each.py"


def a_line(attack="a", way="direct", **changes):
    """Return a line of an attack that does no harm."""
    harmless = {"before": 200.0, "during": 198.0, "after": 200.0, "back_s": 0.0}
    harmless |= {
        "learner_mb": 3.0,
        "broker_mb": 2.0,
        "join_s": 0.1,
        "ended": False,
        "processors": 0.5,
    }
    return Line(attack, way, **(harmless | changes))


@pytest.mark.parametrize(
    ("changes", "harmed"),
    [
        ({}, False),
        ({"ended": True}, True),
        ({"back_s": None}, True),
        ({"learner_mb": 65.0}, True),
        ({"broker_mb": 65.0}, True),
        ({"join_s": None}, False),
    ],
)
def test_a_learner_that_was_harmed_is_not_attacked_again(changes, harmed):
    """The memory that it holds would count for the next attack."""
    assert a_line(**changes).is_harmed is harmed


def test_a_run_goes_on_where_it_was(tmp_path):
    """Lines are in a file as they come; those of a learner with keys follow each other."""
    lines = Lines(tmp_path / "lines.jsonl")
    wanted = list(lines.missing(["b", "a"], WAYS))
    assert len(wanted) == 2 * len(WAYS)
    assert wanted[:3] == [("a", "direct"), ("b", "direct"), ("a", "with a key")]
    lines.add(a_line("a", "with a key", back_s=None))
    again = Lines(tmp_path / "lines.jsonl")
    assert again.found == lines.found
    assert list(again.missing(["b", "a"], WAYS)) == [wanted[0], wanted[1], *wanted[3:]]
    assert "not back" in told(again.found[0])


def test_attackers_that_did_not_begin_have_no_line(tmp_path):
    """Such as those that do not speak the protocol of an earlier release: the log has the reason.

    Those that are ended, since they are late, did attack.
    """
    log = tmp_path / "attackers.log"
    for word, fails in (("sys.exit('first\\nlast')", True), ("os.abort()", False)):
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-c", f"import os, sys; {word}"], stderr=output
            )
        process.wait(PATIENCE_S)
        if fails:
            with pytest.raises(NotBegunError, match=r"^last$"):
                require_begun(process, log)
        else:
            require_begun(process, log)


def test_table_has_every_attack_before_and_after():
    """A cell has the part of the steps, the memory, and what else happened."""
    spec = importlib.util.spec_from_file_location("write", ROOT / "docs/write.py")
    write = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(write)
    then, now = Lines(None), Lines(None)
    then.add(a_line("b", "50 peers", during=20.0, back_s=None, broker_mb=812.4, join_s=None))
    then.add(a_line("a", ended=True, processors=0.01))
    now.add(a_line("b", "50 peers"))
    arms = {
        "now": {"of": "this", "seconds": 5.0, "lines": now.summary()},
        "then": {"of": "0.1.0", "seconds": 5.0, "lines": then.summary()},
    }
    found = json.loads(json.dumps({"arms": arms, "command": "c", "date": "d", "cores": 2}))
    text = write.PARTS["attacks"](found)
    assert "| attack | direct, 0.1.0 | 50 peers, 0.1.0 | 50 peers |" in text
    assert "| a | idle, ended | – | – |" in text
    assert "| b | – | 10%, +812 MB, not back, no join | 99% |" in text


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_script_attacks_in_every_way_and_goes_on(tmp_path):
    """One attack, four ways: four lines, and none again in a second run."""
    name = "noise in frames"
    assert name in attacks.load()
    words = [sys.executable, EACH, "--only", name, "--seconds", 1, "--lines", tmp_path / "lines"]
    done = run_to_end(words, within_s=200)
    assert done.returncode == 0, done.stdout + done.stderr
    found = Lines(tmp_path / "lines").found
    assert {(line.attack, line.way) for line in found} == {(name, way) for way in WAYS}
    assert not any(line.ended for line in found)
    assert all(line.before > 0 for line in found)
    again = run_to_end(words, within_s=30)
    assert again.stdout == "4 lines, 0 to come\n"
