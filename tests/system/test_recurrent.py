"""A recurrent policy over a broker, from its training to its exported file."""

import numpy as np
import onnxruntime
import pytest

from farflung.common.net.address import parse_address

pytestmark = [pytest.mark.system, pytest.mark.slow]

FLAGS = ("--algorithm", "r2d2", "--r2d2.units", 8, "--r2d2.hidden", 8, "--r2d2.burn-in", 10)
FLAGS += ("--horizon", 10, "--batch-size", 80, "--warmup", 200, "--replay-ratio", 8)
FLAGS += ("--wrapper", 'KeepNumbers:{"indices":[0,2]}', "--steps", 1500)


def test_a_memory_is_trained_over_a_broker_and_acts_from_its_file(shell):
    """Rows of two actors are joined by episode; the run is evaluated and exported as it is."""
    learner = shell.learner(*FLAGS, "--name", "one", "--evaluate-every", 500).listens()
    broker = shell.start("broker", learner.address, "--port", 0)
    found = broker.says(r"listening: actor (\S+) \(feed on port (\d+)\)")
    address = parse_address(found[1], int(found[2]))
    shell.actor(address, "--name", "far", "--envs", 3)
    shell.actor(learner.address, "--name", "near")
    shell.actor(address, "--name", "judge", "--evaluate")
    assert learner.ended() == 0, learner.said
    run, file = shell.folder / "runs" / "one", shell.folder / "one.onnx"
    evaluated = shell.start("learner", "evaluate", run, "--episodes", 3)
    assert evaluated.ended() == 0, evaluated.said
    exported = shell.start("learner", "export", run, file)
    assert exported.ended() == 0, exported.said
    session = onnxruntime.InferenceSession(file)
    zeros = np.zeros((2, 8), np.float32)
    feeds = {"observations": np.zeros((2, 2), np.float32)}
    actions, hidden = session.run(
        ["action", "next_state.hidden"], feeds | {"state.hidden": zeros, "state.cell": zeros}
    )
    assert actions.shape == (2,)
    assert hidden.shape == (2, 8)
