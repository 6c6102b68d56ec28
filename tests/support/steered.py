"""A run that is steered: a real core and a real folder, without training."""

from farflung.common.process.lifecycle import Stop
from farflung.learner.endpoint.items import Item, ItemQueue, Settlements
from farflung.learner.steering.executor import Executor
from farflung.learner.steering.orders import AS_BEGUN
from farflung.learner.storage import manifest, steering
from farflung.learner.storage.restore import restore_checkpoint
from farflung.learner.storage.run_folder import Run
from farflung.learner.storage.saver import Saver
from support.learners import a_config, a_learner
from support.makers import a_command


class SteeredRun:
    """A run with an executor for a learner: commands come in, outcomes go out."""

    def __init__(self, folder, **changes):
        self.config = a_config(**changes)
        self.core = a_learner(self.config, folder).core
        self.folder = folder / "one"
        self.stop = Stop()
        self.settled = []
        self.start()

    def start(self, queue=None):
        """Start a learner in the folder."""
        run = Run("one", self.core.spec.run, self.folder)
        self.saver, self.queue = Saver(run, self.core), queue or ItemQueue()
        self.executor = Executor(
            self.config, self.core, self.saver, self.queue, self.stop, self.saver.begin
        )

    def again(self):
        """Start the next epoch, with the core as its newest checkpoint has it."""
        state = self.core.state
        state.version = state.version._replace(epoch=state.version.epoch + 1)
        self.core.steer(AS_BEGUN)
        if manifest.kept(self.folder):
            restore_checkpoint(self.folder, self.core)
        self.start()

    def command(self, name, number=1, epoch=None, **values):
        """Return a command of this run."""
        arguments = {key.replace("_", "-"): value for key, value in values.items()}
        epoch = self.core.state.version.epoch if epoch is None else epoch
        made = {"run": self.core.spec.run, "name": name, "arguments": arguments}
        return a_command(**made, sequence=number, base=number, epoch=epoch)

    def asks(self, command):
        """Let a command come over the wire."""
        settlements = Settlements()
        settlements.note = lambda envelope, outcome: self.settled.append(
            (envelope.sequence, outcome)
        )
        self.queue.put([Item(command, command, b"", settlements, by="lab/me at 10.0.0.7")])

    def done(self, name, number=1, **values):
        """Ask, and return the outcomes."""
        self.asks(self.command(name, number, **values))
        self.executor.tick()
        outcomes, self.settled = self.settled, []
        return outcomes

    @property
    def record(self):
        """The record on disk."""
        return steering.read(self.folder)
