"""The misbehaving client: what it says is legal until told otherwise, and then it is that lie."""

import pytest
from hostile import attacks
from hostile.peer import Peer
from support.contexts import ANYWHERE
from support.makers import a_spec
from support.waiting import eventually

from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.net.keys import ANY_CLIENT
from farflung.common.process.errors import Refused
from farflung.common.protocol import topics, wire
from farflung.common.protocol.parcels import ParcelCodec
from farflung.learner.endpoint.endpoint import Endpoint


@pytest.fixture
def peer():
    """A peer that knows a spec, and dials a port at which nothing listens."""
    with Peer(Address("127.0.0.1", 9, 10), spec=a_spec()) as made:
        yield made


def test_its_messages_are_taken_by_an_endpoint(peer):
    """Until told otherwise, nothing that it sends is refused."""
    endpoint = Endpoint(peer.spec)
    frames = [peer.hello(), peer.report(), peer.parcel(), peer.parcel(rows=20), peer.bye()]
    for frame in frames:
        endpoint.receive([(frame, ANY_CLIENT)], 1.0)
    assert endpoint.inbox.ledger.refused == {}
    assert endpoint.inbox.ledger.received == 2


def test_any_field_can_be_a_lie(peer):
    """Numbers, names, versions and surplus fields go out as they are told."""
    told = {"base": 1 << 40, "actor": "other", "run": 7, "surplus": [1], "version": (9, 9)}
    found = wire.open_frame(peer.hello(**told)).envelope
    assert {name: found[name] for name in told} == told | {"version": [9, 9]}
    parcel = wire.open_frame(peer.parcel(sequence=-1, schema="none"))
    assert (parcel.envelope["sequence"], parcel.envelope["schema"]) == (-1, "none")
    with pytest.raises(Refused):
        wire.read_envelope(parcel)


def test_parcel_holds_what_it_is_told(peer):
    """Rows fill whole trajectories; a value fills its column; results are added."""
    opened = wire.open_frame(peer.parcel(rows=21, values={"rewards": 5}, results=((7.5, 4),)))
    parcel = ParcelCodec(peer.spec).decode(opened, wire.read_envelope(opened))
    assert list(parcel.lengths) == [8, 8, 5]
    assert (parcel.columns["rewards"] == 5).all()
    assert parcel.results.returns == [7.5]


@pytest.fixture
def listening(context):
    """An address, and both sockets that are bound to it."""
    found = sockets.listen(context, ANYWHERE, 1)
    yield found
    for socket in found[1:]:
        socket.close(linger=0)


def test_flood_ends_at_its_bounds(listening):
    """A flood ends after so many messages, or after so many seconds."""
    address, pull, feed = listening
    with Peer(address, spec=a_spec()) as peer:
        assert peer.flood(peer.hello_of, messages=7, seconds=10).messages == 7
        slow = peer.flood(peer.parcel_of, messages=1000, seconds=0.1, per_second=50)
        assert 1 <= slow.messages <= 7
        names = {wire.peek(pull.recv()) for _ in range(7)}
        assert len(names) == 7
        peer.subscribe([topics.beacon("default")])
        eventually(lambda: feed.poll(0), "the subscription")
        assert feed.recv() == b"\x01" + topics.beacon("default")
        with peer.idle(3) as connected:
            assert connected == 3


def test_attacks_have_names_of_their_own():
    """All modules of the folder can be imported, and no two attacks have one name."""
    assert all(name == found.name for name, found in attacks.load().items())
