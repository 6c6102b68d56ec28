"""Commands against losses, repetitions, delays, replays and kills: each is executed once.

Endpoint, executor, record and one who asks are the real ones; the network and the kills are drawn.
"""

from random import Random

import pytest
from support.steered import SteeredRun

from farflung.common.data.weights import Version
from farflung.common.net.keys import Client
from farflung.common.protocol.inbox import Inbox
from farflung.common.protocol.messages import Beacon, State
from farflung.common.protocol.wire import Kind
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.endpoint.items import PARCELS
from farflung.learner.steering import executor, record
from farflung.learner.steering.asking import Asking
from farflung.learner.steering.record import Record
from farflung.learner.storage import steering

SEEDS, ASKED, STEPS = 60, 3, 24
LOST, REPEATED, KILLED, REPLAYED = 0.3, 0.2, 0.12, 0.3
OPERATOR, ACTOR = Client("lab", "operator", 1, "10.0.0.7"), Client("lab", "actor", 2, "10.0.0.9")


class Killed(Exception):
    """The learner dies here."""


class Simulation:
    """One run, its learners one after another, and those who ask."""

    def __init__(self, run: SteeredRun) -> None:
        self.run, self.now, self.weights = run, 0.0, 0
        self.sent: list[bytes] = []  # ever: what a replay may draw from
        self.epoch = 0
        self.start()

    def start(self) -> None:
        """Start the next learner of the run."""
        self.epoch += 1
        self.run.core.state.version = Version(self.epoch, 0)
        self.endpoint = Endpoint(
            self.run.core.spec, Inbox(self.epoch), takes=PARCELS | {Kind.COMMAND}
        )
        self.run.start(self.endpoint.queue)

    def play(self, chance: Random) -> list[str]:
        """Ask for some weights in trouble; return a sentence for each that is not right."""
        asked: dict[float, Asking] = {}
        beacon = Beacon(
            self.run.core.spec.run, "default", 5, Version(self.epoch, 0), 0, 0, State.RUN
        )
        for _ in range(ASKED):
            self.weights += 1
            weight = 1 + self.weights / 1000
            asked[weight] = Asking("lab/me", beacon, "set", {"weight": weight})
        for step in range(STEPS + 200):
            trouble = step < STEPS
            self.step(list(asked.values()), chance, trouble)
            if not trouble and all(each.answered for each in asked.values()):
                break
        done = [each.order for each in steering.read(self.run.folder).answers if not each.refused]
        return [
            f"weight {weight}: done {times} times, answered {asking.answered} {asking.reason}"
            for weight, asking in asked.items()
            if (times := done.count(f"set weight={weight}")) != 1
            or not asking.answered
            or asking.reason
        ]

    def step(self, asking: list[Asking], chance: Random, trouble: bool) -> None:
        """Let a second pass."""
        self.now += 1.0
        arriving = []
        for each in asking:
            if (frame := each.due(self.now)) is not None:
                self.sent.append(frame)
                arriving += [frame] * (not trouble or chance.random() > LOST)
                arriving += [frame] * (trouble and chance.random() < REPEATED)
        messages = [(frame, OPERATOR) for frame in arriving]
        if trouble and self.sent and chance.random() < REPLAYED:
            messages.append((chance.choice(self.sent), chance.choice((OPERATOR, ACTOR))))
        chance.shuffle(messages)
        self.endpoint.receive(messages, self.now)
        if trouble and chance.random() < KILLED:  # with what it has received
            return self.start()
        try:
            self.execute(trouble and chance.random() < KILLED)
        except Killed:  # between the record and the answer
            return self.start()
        self.endpoint.settle()
        if trouble and chance.random() < KILLED:  # before the answers leave
            return self.start()
        for topic, frame in self.endpoint.due(self.now):
            for each in asking:
                if topic in each.topics and not (trouble and chance.random() < LOST):
                    each.receive(bytes(frame), self.now)
        return None

    def execute(self, dies: bool) -> None:
        """Execute what came; if it dies, after the first that is written down."""
        core = self.run.core
        if dies:
            self.run.executor.tick()  # it has taken up the record
            steer = core.steer

            def die(wanted: object) -> None:
                steer(wanted)
                raise Killed

            core.steer = die
        try:
            self.run.executor.tick()
        finally:
            core.__dict__.pop("steer", None)


@pytest.fixture
def simulation(tmp_path, shared_graphs):
    """A run that nothing was asked of so far."""
    run = SteeredRun(tmp_path, mode="async")
    yield Simulation(run)
    run.stop.close()


@pytest.mark.slow
def test_each_command_is_executed_once_whatever_happens_to_it(simulation):
    """And those who asked are told so, in the end."""
    for seed in range(SEEDS):
        assert simulation.play(Random(seed)) == [], seed
    assert simulation.epoch > SEEDS / 2  # kills did happen


def forgets(patch):
    """Let no answer be remembered."""
    patch.setattr(Record, "find", lambda self, command: None)


def any_epoch(patch):
    """Let commands count in each epoch, and let the record forget them."""
    decide = record.decide

    def without(command, run, epoch, unable):
        return decide(command, run, command.epoch, unable)

    patch.setattr(executor, "decide", without)
    patch.setattr(record, "KEPT", 1)


def answers_first(patch):
    """Let a command be answered that is not written down."""
    patch.setattr(executor.Executor, "_keep", lambda self, record: setattr(self, "_record", record))


@pytest.mark.slow
@pytest.mark.parametrize("mutation", [forgets, any_epoch, answers_first])
def test_simulation_finds_a_planted_mistake(simulation, monkeypatch, mutation):
    """Within as many seeds."""
    mutation(monkeypatch)
    assert any(simulation.play(Random(seed)) for seed in range(SEEDS))
