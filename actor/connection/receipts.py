"""The receipts of what a policy client had acknowledged."""

from farflung.actor.connection.policy_client import PolicyClient
from farflung.common.protocol import wire
from farflung.common.protocol.outbox import Frame
from farflung.common.protocol.receipts import Receipt, Receipts


def write_receipts(client: PolicyClient, receipts: Receipts) -> None:
    """Write each acknowledged parcel down before it is released, from now on."""

    def write(number: int, frame: Frame) -> None:
        incarnation = client.actor, client.outbox.incarnation
        receipts.add(
            Receipt(client.tracker.run, client.policy, *incarnation, number, wire.checksum(frame))
        )

    client.outbox.before_release = write
