"""Figures without measure at a real learner, and in the journal of a run."""

import signal
import sys
from pathlib import Path

import pytest
from hostile import attacks
from hostile.peer import Peer
from hostile.victim import Victim, victim
from support.programs import Learner
from support.waiting import run_to_end

from farflung.common.data.fields import MAGNITUDE
from farflung.common.data.spec import Spec
from farflung.common.protocol import wire
from farflung.common.protocol.parcels import ParcelCodec
from farflung.learner.endpoint.items import Item, Settlements
from farflung.learner.observe.status import Status, from_document
from farflung.learner.storage.journal.journal import Journal
from farflung.learner.storage.recover import recover
from farflung.learner.storage.run_folder import open_run

pytestmark = [pytest.mark.system, pytest.mark.slow]

LEARNER = Path(sys.executable).parent / "learner"
ATTACK_S = 1.5
LIES = 100  # parcels in the journal of an older learner


def answers(learner: Learner) -> Status:
    """Ask with the command that the health check of the Compose file runs; require an answer."""
    place = [f"{learner.address.host}:{learner.address.port}"]
    place += ["--feed-port", learner.address.feed_port]
    done = run_to_end([LEARNER, "status", *place, "--json"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert run_to_end([LEARNER, "status", *place]).returncode == 0
    return from_document(done.stdout)


def test_figures_without_measure_leave_the_status_readable(tmp_path):
    """They are refused, and the figures of the honest actor are shown."""
    refused = 0
    with victim(tmp_path) as target:
        for name in ("returns without measure", "figures without measure"):
            with target.peer(name=name.partition(" ")[0]) as peer:
                attacks.load()[name].run(peer, ATTACK_S)
            status = answers(target.learner)
            assert status.refused["range"] > refused, name
            refused = status.refused["range"]
            assert status.evaluation is None
            assert status.return_mean is None or abs(status.return_mean) <= MAGNITUDE
            assert {actor.name: actor.state for actor in status.actors}["honest-0"] == "running"
        target.learner.learns_on()


def kept_by_an_older_learner(run_folder: Path, spec: Spec, peer: Peer) -> None:
    """Append parcels with such results to a journal, past the receiver."""
    run = open_run(run_folder)
    recovered = recover(run, durable=False)
    codec, settlements = ParcelCodec(spec), Settlements()
    with_journal = Journal(
        run_folder, recovered.totals, recovered.inbox.epoch, lambda items: None, durable=False
    )
    for number in range(1, LIES + 1):
        frame = peer.parcel(results=((1e308, 1), (1e308, -5)), version=(1, (1 << 64) - 1))
        opened = wire.open_frame(frame)
        envelope = wire.read_envelope(opened)
        assert envelope.sequence == number
        parcel = codec.decode(opened, envelope, known_finite=True)
        with_journal.append([Item(envelope, parcel, frame, settlements)])
    assert with_journal.drain(30.0)
    with_journal.close()


def test_run_that_holds_such_figures_resumes_and_shows_its_status(tmp_path):
    """An older learner took them into its journal."""
    with victim(tmp_path, world="CartPole-v1") as target:
        run_folder = tmp_path / "runs" / "victim"
        with target.peer() as peer:
            spec = peer.learn()
            end(target)
            kept_by_an_older_learner(run_folder, spec, peer)
        learner = target.shell.learner("--resume", run_folder).listens()
        learner.says("resumed: epoch 3")
        status = answers(learner)
        assert status.return_mean is not None
        assert abs(status.return_mean) <= MAGNITUDE
        assert max(map(abs, filter(None, status.return_history))) == MAGNITUDE


def end(target: Victim) -> None:
    """End the honest actors, then the learner, which saves."""
    for program in (*target.honest.values(), target.learner):
        program.send(signal.SIGTERM)
        program.ended()
