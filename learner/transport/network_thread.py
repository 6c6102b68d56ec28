"""The network thread: it owns both sockets, and drives an endpoint with them.

It never touches disk or torch.
"""

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import zmq

from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.net.gate import Gate
from farflung.common.net.keys import ServerKeys
from farflung.common.net.listener import Listener
from farflung.common.net.shares import LEARNER
from farflung.common.net.sockets import Context
from farflung.common.protocol.messages import State
from farflung.learner.endpoint.endpoint import Endpoint, Message
from farflung.learner.observe.endpoint_status import EndpointStatus, endpoint_status

log = logging.getLogger(__name__)

NAP_S = 0.005  # between two rounds that received something: bursts cost training least
# After a longer round: what came meanwhile is a burst already, and training may have run dry. And
# after one with an actor that was short of credit: it brings more at once, and then waits.
LEAST_NAP_S = 0.001
POLL_MS = 20
ALONE_MS = 100  # while no actor is known; a message ends the wait
SOON_MS = 5  # after a round that settled something: an acknowledgement is due soon
# Of actors in one go, so that neither beacons nor acknowledgements are late. The time is for a
# busy machine: there 1,024 messages took 200 ms, and an actor with credit for one waited for each.
DRAIN_MESSAGES, READ_S = 1024, 0.02
STATUS_S = 0.25
WAIT_S = 0.05  # of training for items, when there is nothing to learn
DRAIN_S = 3.0  # for the log, at the end


class NetworkThread:
    """An endpoint behind two sockets, in a thread of its own from `start` to `close`."""

    def __init__(
        self,
        context: Context,
        address: Address,
        endpoint: Endpoint,
        keys: ServerKeys | None = None,
    ) -> None:
        self._listener = Listener(
            context, address, endpoint.weights_bytes, keys=keys, largest=endpoint.most_bytes
        )
        self.address = self._listener.address
        self._pull, self._feed = self._listener.pull, self._listener.feed
        self._gate = Gate(self._listener, endpoint, LEARNER, time.monotonic())
        self.status = EndpointStatus()
        self._endpoint = endpoint
        # A content that is sent again, as snapshots are, and the one frame of its unread copies.
        self._repeated: bytes | bytearray = b""
        self._shared: zmq.Frame | None = None
        self._wakeup = _Wakeup()
        self._hurry = threading.Event()  # something is to be sent at once: it ends a nap
        endpoint.settlements.wake, endpoint.wake = self._wakeup.set, self._wake
        self._status_at = 0.0
        self._active = False  # the last round received or settled something
        self._failure: BaseException | None = None
        self._closing = threading.Event()
        self._leaves_as = State.AWAY
        self._thread = threading.Thread(target=self._run, name="network", daemon=True)

    def start(self) -> None:
        """Let the thread own the sockets from now on."""
        self._thread.start()

    def wait(self) -> None:
        """Wait a moment for items."""
        self._endpoint.queue.wait(WAIT_S)

    def check(self) -> None:
        """Raise the error that ended the log or this thread, if one did."""
        self._endpoint.log.check()
        if self._failure is not None:
            raise RuntimeError("the network thread ended") from self._failure

    def close(self, state: State = State.AWAY) -> None:
        """Publish the state in which this learner leaves; end the thread and both sockets."""
        self._leaves_as = state
        self._closing.set()
        self._wake()
        if self._thread.is_alive():
            self._thread.join()
        self._listener.close()
        self._wakeup.close()

    def _wake(self) -> None:
        """End the poll or the nap, from any thread: something is to be sent at once."""
        self._hurry.set()
        self._wakeup.set()

    def _run(self) -> None:
        try:
            poller = self._poller()
            while not self._closing.is_set():
                poller.poll(self._patience_ms)
                now = time.monotonic()
                self._hurry.clear()  # before the look: what comes after it ends the nap
                received, ended_at = self._round(now), time.monotonic()
                self._endpoint.busy_s += ended_at - now
                if received:
                    self._hurry.wait(self._nap_s(ended_at - now))
                if self._listener.look_after(now):
                    self._pull, self._feed = self._listener.pull, self._listener.feed
                    self._gate.reset(now)
                    poller = self._poller()
            self._finish(time.monotonic())
        except BaseException as error:  # the top of a thread; training raises it and ends
            log.exception("the network thread ended")
            self._failure = error

    def _nap_s(self, took_s: float) -> float:
        """Return how long to sleep after a round that received something and took so long."""
        hurried = self._endpoint.receiver.acknowledgements.hurried
        return LEAST_NAP_S if hurried else max(LEAST_NAP_S, NAP_S - took_s)

    @property
    def _patience_ms(self) -> int:
        if self._active:
            return SOON_MS
        return POLL_MS if self.status.actors else ALONE_MS

    def _poller(self) -> zmq.Poller:
        poller = zmq.Poller()
        for readable in (self._pull, self._feed, self._wakeup):
            poller.register(readable, zmq.POLLIN)
        return poller

    def _round(self, now: float) -> int:
        """Receive what is here and send what is due; return how many messages were received."""
        self._gate.receive(now)
        received, spans = self._endpoint.receive(self._messages(), now), self._endpoint.spans
        if received and spans.on:
            spans.add("receive", now, spans.clock())
        self._wakeup.clear()
        self._active = self._endpoint.settle() + received > 0
        self._send(now)
        if now - self._status_at >= STATUS_S:
            self._endpoint.receiver.presence.look(now)
            unread = self._listener.authenticator.watch.unread_bytes
            self._status_at, self.status = now, endpoint_status(self._endpoint, now, unread)
        return received

    def _messages(self) -> Iterator[Message]:
        """Yield what waits in the PULL socket, up to a bound, with each sender."""
        end = time.monotonic() + READ_S
        for _ in range(DRAIN_MESSAGES):
            try:
                frame = self._pull.recv(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                self._listener.authenticator.watch.drained += 1
                return
            yield self._whole(frame), self._listener.sender(frame)
            if time.monotonic() > end:
                return

    def _whole(self, frame: zmq.Frame) -> bytes | memoryview:
        """Return a message of one frame, and nothing for one of several: actors send none.

        A large message is read in place, until its rows are copied into the replay.
        """
        if frame.more:
            self._pull.recv_multipart(copy=False)  # the rest of it, which is here too
            return b""
        held = sockets.hold(frame)
        return held if isinstance(held, bytes) else held.buffer

    def _send(self, now: float) -> None:
        for topic, content in self._endpoint.due(now):
            # Without this look libzmq notices late that an idle subscriber's pipe has room, and
            # drops messages for it.
            self._feed.get(zmq.EVENTS)
            if content is self._repeated:
                self._shared = self._shared or zmq.Frame(bytes(content))
                self._feed.send_multipart((topic, self._shared), copy=False)
            else:
                self._repeated, self._shared = content, None
                self._feed.send_multipart((topic, content), copy=len(content) < sockets.COPY_BYTES)

    def _finish(self, now: float) -> None:
        """Take what is here already, and publish the state in which this learner leaves."""
        self._endpoint.receive(self._messages(), now)
        self._endpoint.log.drain(DRAIN_S)
        self._endpoint.settle()
        self._endpoint.publisher.state = self._leaves_as
        self._endpoint.publisher.hurry()
        self._send(now)
        self.status = endpoint_status(self._endpoint, now)


class _Wakeup:
    """A pipe that ends the poll of the network thread."""

    def __init__(self) -> None:
        self._readable, self._writable = os.pipe()
        os.set_blocking(self._readable, False)
        os.set_blocking(self._writable, False)
        self._lock = threading.Lock()
        self._closed = False

    def set(self) -> None:
        """End the poll, from any thread. A full pipe ends it as well."""
        with self._lock, suppress(BlockingIOError):
            if not self._closed:  # the log may settle items after the network thread has ended
                os.write(self._writable, b"!")

    def clear(self) -> None:
        """Let the next poll wait again."""
        with suppress(BlockingIOError):
            os.read(self._readable, 4096)

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self._readable

    def close(self) -> None:
        """Return the descriptors. Nothing polls any more."""
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._readable)
                os.close(self._writable)
