"""Rows that overflow in training, at a real learner and in the journal of an older one."""

import signal

import pytest
from hostile import attacks
from hostile.peer import Peer
from hostile.victim import victim

from farflung.common.data.spec import Spec
from farflung.common.protocol import wire
from farflung.common.protocol.parcels import ParcelCodec
from farflung.common.protocol.quarantine import OFFENCES
from farflung.learner.endpoint.items import Item, Settlements
from farflung.learner.storage.journal.journal import Journal
from farflung.learner.storage.recover import recover
from farflung.learner.storage.run_folder import open_run

pytestmark = [pytest.mark.system, pytest.mark.slow]

ATTACK_S = 2.0
POISON = ({"rewards": 3e38}, {"observations": 3e38})
PARCELS, ROWS = 39, 64  # of them in the journal: before, they ended a run


@pytest.mark.parametrize(
    ("keys", "through"),
    [
        pytest.param(False, False, id="direct"),
        pytest.param(True, False, id="with a key", marks=pytest.mark.faults),
        pytest.param(True, True, id="through a broker", marks=pytest.mark.faults),
    ],
)
def test_finite_poison_does_not_end_a_learner(tmp_path, keys, through):
    """It is refused, its sender is in quarantine, and the learner learns on."""
    with victim(tmp_path, keys=keys, broker=through, actors=1, relayed=int(through)) as target:
        with target.peer(through=through) as peer:
            attacks.load()["finite poison"].run(peer, ATTACK_S)
            for _ in range(2 * OFFENCES):  # the first number of each needs no credit
                peer.send(peer.parcel(values=POISON[0], incarnation=peer.identity(), sequence=1))
        status = target.learner.shows(lambda status: "quarantine" in status.refused)
        assert status.refused["magnitude"] > 0
        target.learner.learns_on()
        assert target.audit()[0] == 0


def kept_by_an_older_learner(run_folder, spec: Spec, peer: Peer) -> None:
    """Append poison to a journal, past the receiver."""
    recovered = recover(open_run(run_folder), durable=False)
    codec, settlements = ParcelCodec(spec), Settlements()
    journal = Journal(
        run_folder, recovered.totals, recovered.inbox.epoch, lambda items: None, durable=False
    )
    for number in range(PARCELS):
        frame = peer.parcel(rows=ROWS, values=POISON[number % 2])
        opened = wire.open_frame(frame)
        envelope = wire.read_envelope(opened)
        parcel = codec.decode(opened, envelope, known_finite=True)
        journal.append([Item(envelope, parcel, frame, settlements)])
    assert journal.drain(30.0)
    journal.close()


def test_run_with_poison_in_its_journal_resumes(tmp_path):
    """The rows are cut to the bound, the log names their actor, and training goes on."""
    with victim(tmp_path, world="CartPole-v1") as target:
        run_folder = tmp_path / "runs" / "victim"
        with target.peer() as peer:
            spec = peer.learn()
            for program in (*target.honest.values(), target.learner):
                program.send(signal.SIGTERM)
                program.ended()
            kept_by_an_older_learner(run_folder, spec, peer)
        learner = target.shell.learner("--resume", run_folder).listens()
        learner.says("resumed: epoch 3")
        target.shell.actor(learner.address, "--name", "late")
        learner.learns_on()
        assert "mallory sent values beyond" in learner.said
