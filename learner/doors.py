"""Where a learner is reached, and what becomes of what comes in: both sockets, the journal, the way to training. Without torch."""

from pathlib import Path
from types import TracebackType

from farflung.common.net import sockets
from farflung.common.net.keys import server_keys
from farflung.common.protocol.messages import State
from farflung.learner.config import LearnerConfig
from farflung.learner.endpoint.parcel_queue import ParcelQueue
from farflung.learner.storage.journal.journal import Journal
from farflung.learner.storage.journal.totals import JournalTotals
from farflung.learner.storage.recover import Recovered
from farflung.learner.storage.run_folder import Run
from farflung.learner.talk import Talk
from farflung.learner.transport.network_thread import NetworkThread


class Doors:
    """A learner that can be heard, from here until `close`. Of a run that goes on it is heard to be restoring."""

    def __init__(self, config: LearnerConfig, run: Run, talk: Talk, past: Recovered | None) -> None:
        self.talk, self.past = talk, past
        self.queue = ParcelQueue()
        self.journal: Journal | None = None
        self._context = sockets.context()
        talk.publisher.state = State.RUN if past is None else State.RESTORING
        try:
            keys = server_keys(Path(config.keys)) if config.keys else None
            message_bytes = sum(tensor.size for tensor in talk.spec.graph.weights)
            self.link = NetworkThread(
                self._context,
                config.address,
                talk.receiver,
                talk.publisher,
                self.queue,
                message_bytes,
                keys,
            )
            try:
                self.journal = self._journal(config, run)
            except BaseException:
                self.link.close()  # an open socket would keep the context from ending
                raise
        except BaseException:
            self._context.term()
            raise
        self.link.start(self.journal)

    def close(self) -> None:
        """Say the last word, and let go of ports and journal."""
        self.link.close()
        if self.journal is not None:
            self.journal.close()
        self._context.term()

    def __enter__(self) -> "Doors":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _journal(self, config: LearnerConfig, run: Run) -> Journal | None:
        """The journal of this run, if it is to have one. Once it is open, this life's epoch is on disk."""
        if config.durability == "none":
            return None
        table = JournalTotals(run.identity) if self.past is None else self.past.totals
        return Journal(
            run.folder,
            table,
            self.talk.epoch,
            self.queue.put,
            durable=config.durability == "fsync",
            keep=config.keep_journal,
        )
