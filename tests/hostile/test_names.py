"""A flood of names at a real learner, and the secret that an incarnation is."""

import pytest
from hostile.attacking import AT_BOTH, TRIES
from hostile.peer import Peer
from hostile.victim import victim
from support.makers import a_frame, a_spec
from support.waiting import Deadline

from farflung.common.net.address import Address
from farflung.common.net.keys import ANY_CLIENT
from farflung.common.protocol import receipts, topics
from farflung.learner.endpoint.endpoint import Endpoint

MOST, ENOUGH, QUIET_S, LISTEN_S = 100_000, 5_000, 2.0, 2.0


def test_guessed_incarnations_change_nothing_for_an_actor() -> None:
    """Each guess opens a name, of which a peer has so many; the actor's numbers stay its own."""
    spec = a_spec()
    endpoint = Endpoint(spec)
    receiver = endpoint.receiver
    first = receiver.receive(a_frame(spec, actor="robot", incarnation=7), 0.0)
    assert first is not None
    receiver.settle(first.envelope)
    peer = Peer(Address("127.0.0.1", 9, 10), spec=spec)
    for number in range(5000):
        guess = {"actor": "robot", "incarnation": peer.identity()}
        for frame in (peer.hello(**guess, base=1 << 40), peer.parcel(**guess, sequence=2 + number)):
            receiver.receive(frame, 0.0)
        receiver.receive(peer.bye(**guess), 0.0)
    peer.close()
    assert receiver.inbox.received("robot", 7) == (1, (), ())
    refused = receiver.inbox.ledger.refused
    assert refused["names"] > 1000
    second = a_frame(spec, actor="robot", incarnation=7, sequence=2)
    assert receiver.receive(second, 1.0, ANY_CLIENT) is not None
    assert receiver.names.has_rows(("robot", 7))


@pytest.mark.slow
@pytest.mark.system
@AT_BOTH
def test_flood_of_names_leaves_an_honest_actor_its_steps(tmp_path, through):
    """Also right after it; the status shows the actor, and none of the names once they are gone."""
    direct, relayed = (0, 1) if through else (1, 0)
    with victim(tmp_path, broker=through, actors=direct, relayed=relayed) as target:

        def steps_stay():
            before = target.during(QUIET_S)
            with target.peer(through=through) as peer, target.measuring() as meanwhile:
                sent, deadline = 0, Deadline(120)
                while sent <= ENOUGH and not deadline.over:  # once, except on a starved machine
                    sent += peer.flood(peer.hello_of, messages=MOST, seconds=QUIET_S).messages
            after = target.during(QUIET_S)
            assert sent > ENOUGH
            # The flood takes a processor of this machine. Before nothing was left, also later.
            return (
                meanwhile.steps_per_s > 0.15 * before.steps_per_s
                and after.steps_per_s > 0.4 * before.steps_per_s
            )

        assert any(steps_stay() for _ in range(TRIES))
        status = target.learner.shows(lambda status: len(status.actors) == 1)
        assert [actor.name for actor in status.actors] == ["honest-0"]


@pytest.mark.slow
@pytest.mark.system
def test_no_client_is_told_the_incarnation_of_another(tmp_path):
    """Neither by any topic of a learner or a broker, nor by status and log."""
    with victim(tmp_path, broker=True, actors=1, relayed=1) as target:
        paths = [target.shell.folder / f"{name}.receipts" for name in target.honest]
        secrets = {receipt.incarnation for path in paths for receipt in receipts.read(path)}
        heard = []
        for through in (False, True):
            with target.peer(through=through) as peer:
                named = [f"a/default/{name}{end}" for name in target.honest for end in ("", "/")]
                peer.subscribe(word.encode() for word in ("", "a", "a/", "a/default/", *named))
                peer.subscribe([b"c/", b"t/", b"z/", b"s/", topics.weights("default")])
                heard += peer.read(LISTEN_S)
        assert len(secrets) == 2
        assert {topic[:1] for topic, _ in heard} >= {b"c", b"t"}
        logs = target.learner.said + (target.broker.said if target.broker else "")
        for secret in secrets:
            texts = (f"{secret:016x}", str(secret))
            spelled = [secret.to_bytes(8, "big"), *(text.encode() for text in texts)]
            assert not [topic for topic, frame in heard for it in spelled if it in topic + frame]
            assert not [text for text in texts if text in logs]
