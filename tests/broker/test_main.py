"""The command as a whole, on this thread."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from farflung.broker.config import BrokerConfig
from farflung.broker.main import relay
from farflung.broker.relay_loop import Broker
from farflung.common.process.config import Loaded
from farflung.common.process.errors import UsageError
from farflung.common.process.lifecycle import Stop


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_says_where_it_listens_and_ends_when_it_is_told_to(
    number: signal.Signals,
    code: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A supervisor gets 0, a shell 130."""
    run = Broker.run

    def run_and_tell(broker: Broker, stop: Stop) -> None:
        # Not before the handlers stand: the signal would end these tests.
        threading.Timer(0.05, os.kill, (os.getpid(), number)).start()
        run(broker, stop)

    monkeypatch.setattr(Broker, "run", run_and_tell)
    assert relay(Loaded(BrokerConfig(("127.0.0.1:1",), port=0))) == code
    said = capsys.readouterr().err
    assert "listening: actor 127.0.0.1:" in said
    assert "relaying to 127.0.0.1:1; memory: 1 × 64 MiB" in said
    assert f"stopped: {number.name}" in said


def test_a_broker_of_nobody_is_refused() -> None:
    """There is no default: a broker beside its learner is a mistake."""
    with pytest.raises(UsageError, match="name at least one learner"):
        relay(Loaded(BrokerConfig()))


@pytest.mark.slow
def test_a_broker_needs_only_the_base() -> None:
    """Nothing of an actor or a learner is loaded, and no numpy."""
    heavy = [
        "actor",
        "learner",
        "numpy",
        "torch",
        "lz4",
        "rich",
        "psutil",
        "gymnasium",
        "onnxruntime",
    ]
    words = (
        "import sys, farflung.broker.main, farflung.broker.relay_loop; "
        f"print(sorted(set({heavy}) & {{name.partition('.')[0] for name in sys.modules}}))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", words], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )
