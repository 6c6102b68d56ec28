"""An algorithm with gradients that stop being finite."""

import numpy as np
import pytest
import torch

from farflung.common.net import sockets
from farflung.common.protocol import topics, wire
from farflung.learner.storage import checkpoint, manifest

pytestmark = [pytest.mark.system, pytest.mark.slow]
BEGIN_AS_A_USERS = True  # learners, and not as forks

RESTORED = "were not finite: the last good checkpoint was restored"


@pytest.fixture
def order(tmp_path):
    """Asks the algorithm to break in so many updates in a row."""

    def order(updates):
        draft = tmp_path / "draft"
        draft.write_text(str(updates))
        draft.rename(tmp_path / "order")

    return order


def published(feed):
    """Yield the tensors of every published version."""
    while feed.poll(0):
        yield wire.open_frame(b"".join(feed.recv_multipart()[1:]))


def test_nonfinite_gradients_never_reach_the_weights(shell, habitats, order, tmp_path):
    """Three are skipped; ten restore the last checkpoint, once; ten more end the run: code 65."""
    flags = (
        "--algorithm",
        "brittle:Brittle",
        "--actors",
        1,
        "--warmup",
        200,
        "--replay-ratio",
        4,
        "--checkpoint-every",
        0.5,
    )
    learner = shell.learner(
        *flags, "--name", "brittle", BRITTLE=str(tmp_path / "order"), **habitats
    ).listens()
    folder = shell.folder / "runs" / "brittle"
    with sockets.feed_subscriber(
        shell.context, learner.address, [topics.weights("default")]
    ) as feed:
        order(3)
        three = learner.shows(lambda status: status.skipped == 3 and status.updates > 3)
        assert not [problem for problem in three.problems if RESTORED in problem]
        learner.until(lambda: manifest.kept(folder), "a checkpoint")
        order(10)
        status = learner.shows(
            lambda status: any(problem.endswith(RESTORED) for problem in status.problems)
        )
        assert status.skipped == 13
        learner.shows(lambda later: later.version > status.version + 3)
        order(10)
        assert learner.ended() == 65
        versions = list(published(feed))
    assert (
        "again after the last good checkpoint was restored: lower the learning rate"
        in learner.said.splitlines()[-1]
    )
    assert "Traceback" not in learner.said
    assert len(versions) > 3
    assert all(np.isfinite(np.frombuffer(opened.data, np.float32)).all() for opened in versions)
    for name in manifest.kept(folder):
        assert all(
            torch.isfinite(tensor).all()
            for tensor in checkpoint.read(folder, name).tensors.values()
        )
