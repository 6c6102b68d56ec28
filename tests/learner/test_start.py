"""The first moments: a port that is taken is said at once, a run that goes on is heard early, and a signal leaves nothing behind."""

import subprocess
import sys

import pytest
from support.learners import a_config, a_learner, a_run

from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.process.config import Loaded
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol import topics, wire
from farflung.common.protocol.messages import State
from farflung.learner import start
from farflung.learner.storage import recover
from farflung.learner.storage.journal.journal import Journal
from farflung.learner.storage.journal.totals import JournalTotals


@pytest.fixture
def taken():
    """Two ports where somebody listens."""
    with sockets.context() as context:
        address, *pair = sockets.listen(context, Address("127.0.0.1", 0, 0), 1)
        yield address
        for socket in pair:
            socket.close()


def test_a_taken_port_is_said_before_there_is_a_folder(tmp_path, taken):
    """Nothing was loaded or written yet, and the name stays free."""
    config = a_config(mode="async", port=taken.port, run_dir=str(tmp_path), name="one")
    with pytest.raises(ConfigurationError, match="Is another learner there"):
        start.start(Loaded(config, {}))
    assert not (tmp_path / "one").exists()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"device": "cuda"}, "--device cuda: this torch"),
        ({"init": "nowhere"}, "--init nowhere: that folder is not there"),
    ],
    ids=["device", "init"],
)
def test_what_is_not_there_is_refused_and_leaves_no_folder(
    tmp_path, monkeypatch, changes, sentence
):
    """A card, the run to begin with: nothing was promised yet, and the name stays free."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ConfigurationError, match=sentence):
        start.start(Loaded(a_config(run_dir=str(tmp_path), name="one", **changes), {}))
    assert not (tmp_path / "one").exists()


def test_a_run_without_a_checkpoint_has_no_weights(tmp_path):
    """As one that was killed early: said before torch is loaded."""
    a_run(tmp_path, "early")
    with pytest.raises(ConfigurationError, match=r"--init .*early: that folder has no checkpoint"):
        start.require_weights(tmp_path / "early")


def test_a_signal_while_torch_is_loaded_leaves_no_folder(tmp_path, monkeypatch):
    """SIGTERM comes as an exception: exit code 0, and the next attempt may have the name."""

    class Ended:
        def find_spec(self, name, path=None, target=None):
            if name == "farflung.learner.train":
                raise SystemExit(0)

    monkeypatch.delitem(sys.modules, "farflung.learner.train", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Ended(), *sys.meta_path])
    config = a_config(mode="async", port=0, run_dir=str(tmp_path), name="one")
    with pytest.raises(SystemExit):
        start.start(Loaded(config, {}))
    assert not (tmp_path / "one").exists()


def test_a_run_that_goes_on_is_heard_to_be_restoring(tmp_path):
    """Before there is any torch: with the run's own graph, in the next epoch, which is on disk."""
    config = a_config(mode="async", port=0)
    a_learner(config, tmp_path)
    run = start.open_run(tmp_path / "one")
    Journal(run.folder, JournalTotals(run.identity), 1, lambda parcels: None, durable=False).close()
    doors = start.early(config, run, recover.recover(run, durable=False))
    assert doors is not None
    with (
        doors,
        sockets.context() as context,
        sockets.feed_subscriber(context, doors.link.address, [topics.beacon("default")]) as feed,
    ):
        assert feed.poll(5000)
        beacon = wire.read(wire.open_frame(feed.recv_multipart()[-1]))
    assert (beacon.state, beacon.version.epoch, beacon.run) == (State.RESTORING, 2, run.identity)
    assert recover.recover(run, durable=False).inbox.epoch == 3


def test_what_comes_first_needs_no_torch():
    """Its import takes more than a second: a run that goes on is heard before."""
    words = "import sys, farflung.learner.start; assert not {'torch', 'onnx', 'tensorboard'} & set(sys.modules), 'loaded'"
    assert subprocess.run([sys.executable, "-c", words], check=False).returncode == 0
