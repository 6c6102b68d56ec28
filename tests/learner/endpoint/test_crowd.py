"""Peers that ignore their credit or start again and again, beside an actor that does neither."""

from support.makers import a_frame, a_spec

from farflung.common.net.keys import BROKER, Client
from farflung.common.protocol import topics, wire
from farflung.common.protocol.allowances import WITHHELD_S
from farflung.common.protocol.messages import Acknowledgement
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.endpoint.items import Unlogged

CROWD, ROUND_S, ROOM = 50, 0.05, 100  # rows: three for each parcel of a peer have no room
FEW = 8  # peers whose rows have room
OURS = topics.acknowledgement("default", "honest", 7)


class Late(Unlogged):
    """A log that delivers a burst with the next round."""

    def __init__(self, endpoint):
        super().__init__(endpoint.queue.put)
        self.held = []

    @property
    def waiting_rows(self):
        return sum(item.rows for item in self.held)

    def append(self, items):
        self.held += items

    def release(self):
        """Deliver and settle what is held."""
        held, self.held = self.held, []
        super().append(held)


class Scene:
    """An endpoint, a training that takes all there is in each round, and the honest actor."""

    def __init__(self):
        self.spec = a_spec()
        self.endpoint = Endpoint(self.spec, learner_id=5)
        self.log = self.endpoint.log = Late(self.endpoint)
        self.now, self.credit, self.sent, self.waits = 0.0, 1, 0, 0
        self.numbers = [0] * CROWD

    def turn(self, *frames):
        """Receive these and a parcel of the honest actor, if it has credit; send what is due."""
        self.now += ROUND_S
        honest = self.sent - self.endpoint.inbox.received("honest", 7).highest < self.credit
        self.sent, self.waits = self.sent + honest, self.waits + (not honest)
        own = [(self.parcel("honest", self.sent), Client("", BROKER, 1))] * honest
        self.endpoint.receive([*frames, *own], self.now)
        self.endpoint.settle()
        self.endpoint.queue.parcels.take(len(self.endpoint.queue.parcels))
        self.endpoint.progress(0, 0, ROOM)
        for topic, frame in self.endpoint.due(self.now):
            if topic == OURS:
                message = wire.read(wire.open_frame(frame))
                assert isinstance(message, Acknowledgement)
                self.credit = message.credit.messages
        self.log.release()

    def parcel(self, actor, number):
        return a_frame(self.spec, actor=actor, sequence=number)

    def flood(self):
        """Let each of the crowd send three parcels, granted or not."""
        frames = []
        for peer in range(CROWD):
            for _ in range(3):
                self.numbers[peer] += 1
                frames.append(
                    (
                        self.parcel(f"peer-{peer}", self.numbers[peer]),
                        Client("", BROKER, peer + 2),
                    )
                )
        self.turn(*frames)

    def admitted(self):
        """Return the rows of the crowd that wait for training, or went there."""
        return self.endpoint.inbox.ledger.accepted - self.sent


def test_a_crowd_that_ignores_its_credit_takes_none_from_an_honest_actor():
    """After eight parcels beyond it each is granted nothing, and holds no share, as long as it
    goes on. The honest actor has the credit that it has alone, also right after the end.
    """
    scene = Scene()
    for _ in range(200):  # until the rows of a usual parcel are known
        scene.turn()
    alone = scene.credit
    assert alone > 2
    for _ in range(20):
        scene.flood()
    admitted, scene.waits = scene.admitted(), 0
    assert scene.credit == alone
    for _ in range(100):
        scene.flood()
        assert scene.credit == alone
    assert (scene.admitted(), scene.waits) == (admitted, 0)
    for _ in range(20):
        scene.turn()
        assert scene.credit == alone
    assert scene.waits == 0
    assert scene.endpoint.receiver.names.sharers(scene.now) == 1


def test_a_crowd_that_starts_again_and_again_takes_no_credit_from_an_honest_actor():
    """Each sends one parcel in each of its starts: that much every start is granted.

    Meanwhile and right after it the honest actor has the credit that it has alone. Before, each
    start took a share for 8 s, so that it had credit for one parcel at a time.
    """
    scene = Scene()
    for _ in range(200):
        scene.turn()
    alone, accepted, scene.waits = scene.credit, scene.admitted(), 0
    assert alone > 2
    for start in range(1, 201):
        frames = [
            (a_frame(scene.spec, actor=f"peer-{peer}", incarnation=start), Client("", BROKER, peer))
            for peer in range(2, 2 + FEW)
        ]
        scene.turn(*frames)
        assert scene.credit == alone
    assert scene.admitted() == accepted + 200 * FEW
    for _ in range(20):
        scene.turn()
        assert scene.credit == alone
    assert scene.waits == 0
    assert scene.endpoint.receiver.names.sharers(scene.now) == 1


def test_a_peer_that_keeps_to_its_credit_again_is_granted_some():
    """Two seconds after its last parcel too many; what it sent then is still missing."""
    scene = Scene()
    scene.turn()
    for _ in range(20):
        scene.flood()
    last, before = scene.now, scene.admitted()
    while scene.now <= last + WITHHELD_S + 2:
        scene.turn()
    missing = scene.endpoint.inbox.received("peer-0", 7).highest + 1
    scene.turn((scene.parcel("peer-0", missing), Client("", BROKER, 2)))
    assert scene.admitted() == before + 1
