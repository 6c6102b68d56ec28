"""The first line of each program: before the imports that take time."""

import subprocess
import sys

import pytest

HEAVY = ("numpy", "zmq", "torch", "onnxruntime", "gymnasium")
WORDS = """
import logging, sys
from farflung.{role} import main
class Refused(Exception): pass
class Look(logging.Handler):
    def emit(self, record):
        sys.stdout.write(record.getMessage() + "|" + ",".join({{*sys.modules}} & {{*{heavy}}}))
        raise Refused
logging.getLogger().addHandler(Look())
try:
    main.{function}(main.config.load({load}))
except Refused:
    pass
"""
CASES = [
    ("learner", "train", "*LEARNER", "starting: CartPole-v1, dqn, 2 actors on this machine"),
    (
        "actor",
        "act",
        '"actor", main.ActorConfig, []',
        "starting, for the learner at 127.0.0.1:5555",
    ),
    (
        "broker",
        "relay",
        '"broker", main.BrokerConfig, ["red:5555"]',
        "starting, for red:5555",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("role", "function", "load", "line"), CASES, ids=[c[0] for c in CASES])
def test_the_first_line_comes_before_heavy_imports(
    role: str, function: str, load: str, line: str
) -> None:
    """A person sees at once that something happens, however slow the disk is."""
    load = load.replace("*LEARNER", '"learner", main.config_class([]), ["--actors", "2"]')
    words = WORDS.format(role=role, function=function, load=load, heavy=HEAVY)
    ended = subprocess.run(
        [sys.executable, "-c", words], capture_output=True, text=True, check=True
    )
    said, _, loaded = ended.stdout.partition("|")
    assert (said, loaded) == (line, "")
