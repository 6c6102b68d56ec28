"""A real learner with honest actors and perhaps a broker, and what a bad peer does to them.

    with victim(folder, keys=True, broker=True, actors=1, relayed=1) as target:
        before = target.during(5.0)                  # figures of five quiet seconds
        with target.measuring() as figures, target.peer() as peer:
            ...                                      # the attack
        assert figures.beacon_gap_s < 3
        assert target.during(10.0).steps_per_s > 0.95 * before.steps_per_s
        assert target.learner.running

- `peer(key="mallory")` dials with an allowed key, `peer(key=None)` with none, `through=True` dials
  the broker. `label(name)` makes one more allowed key.
- Honest actors step a `world` that takes 5 ms a step and hardly any processor, unless told
  otherwise, so their steps/s do not depend on what else the machine does. Steps count when the
  learner has acknowledged them, by the actors' own receipts.
- `audit()` ends all and returns the exit code and the words of `learner audit` over the receipts.
- Memory is `own` memory, without pages of files. A gap between beacons counts until now.
"""

import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import zmq
from hostile.peer import Peer
from support.contexts import fresh_context
from support.programs import Learner, Program, Shell
from support.waiting import eventually, run_to_end

from farflung.common.net import keys as key_files
from farflung.common.net import sockets
from farflung.common.net.address import Address, parse_address
from farflung.common.protocol import topics

HABITATS = Path(__file__).parents[1] / "system"  # worlds that tests register
SLOW = "habitats/Slow-v0"
HORIZON = 16
SAMPLE_S = 0.05
JOINED_S = 60.0
# Training is far faster than honest actors: pacing holds them back only if an attack takes it.
FREE = ("--warmup", 500, "--replay-ratio", 1, "--horizon", HORIZON)


@dataclass(slots=True)
class Figures:
    """The events while a measurement ran; it grows until the measurement ends."""

    began: float
    ended: float = 0.0
    steps: dict[str, int] = field(default_factory=dict)  # acknowledged, by honest actor
    memory_mb: list[float] = field(default_factory=list)
    descriptors: int = 0  # the most
    beacons: list[float] = field(default_factory=list)
    exit_code: int | None = None  # of the learner; None while it runs
    processor_s: float = 0.0  # of the learner

    @property
    def seconds(self) -> float:
        """The length of the measurement."""
        return (self.ended or time.monotonic()) - self.began

    @property
    def steps_per_s(self) -> float:
        """Acknowledged steps of all honest actors a second."""
        return sum(self.steps.values()) / self.seconds

    @property
    def slowest(self) -> float:
        """Acknowledged steps a second of the honest actor that had the fewest."""
        return min(self.steps.values()) / self.seconds

    @property
    def most_mb(self) -> float:
        """The most memory of the learner."""
        return max(self.memory_mb)

    @property
    def beacon_gap_s(self) -> float:
        """The longest time without a beacon."""
        times = [self.began, *self.beacons, self.ended or time.monotonic()]
        return max(late - early for early, late in itertools.pairwise(times))

    def summary(self) -> dict[str, Any]:
        """Return the figures in short, for a table or a note."""
        return {
            "seconds": round(self.seconds, 1),
            "steps_per_s": round(self.steps_per_s, 1),
            "slowest": round(self.slowest, 1) if self.steps else None,
            "memory_mb": [round(self.memory_mb[0]), round(self.most_mb), round(self.memory_mb[-1])],
            "beacon_gap_s": round(self.beacon_gap_s, 1),
            "descriptors": self.descriptors,
            "processor_s": round(self.processor_s, 1),
            "exit_code": self.exit_code,
        }


class Victim:
    """Processes under attack."""

    def __init__(self, shell: Shell, folder: Path | None) -> None:
        self.shell, self.keys_folder = shell, folder
        self.learner: Learner
        self.broker: Program | None = None
        self.front: Address | None = None  # of the broker
        self.honest: dict[str, Program] = {}
        self._envs = 1

    # ---- peers

    def label(self, name: str, role: str = key_files.ACTOR) -> Path:
        """Return the file of an allowed key, made if there is none."""
        assert self.keys_folder is not None
        if not (self.keys_folder / f"{name}.key").exists():
            key_files.make(self.keys_folder, name, role)
        return self.keys_folder / f"{name}.key"

    def peer(
        self,
        key: str | None = "mallory",
        name: str = "mallory",
        *,
        through: bool = False,
        role: str = key_files.ACTOR,
        seed: int = 0,
        learns: bool = True,
    ) -> Peer:
        """Return a bad peer; with a key, or without keys at all, it knows the spec."""
        address = self.front if through else self.learner.address
        assert address is not None
        guarded = self.keys_folder is not None
        path = self.label(key, role) if guarded and key is not None else None
        made = Peer(address, key=path, name=name, seed=seed)
        if learns and (path is not None or not guarded):
            made.learn()
        return made

    # ---- what is measured

    def steps(self) -> dict[str, int]:
        """Return the acknowledged steps of each honest actor."""
        found = {}
        for name in self.honest:
            path = self.shell.folder / f"{name}.receipts"
            lines = path.read_bytes().count(b"\n") if path.exists() else 0
            found[name] = lines * HORIZON * self._envs
        return found

    @contextmanager
    def measuring(self) -> Iterator[Figures]:
        """Measure for as long as the block runs."""
        over, figures = threading.Event(), Figures(time.monotonic())
        before, used_s = self.steps(), self._used_s()
        watcher = threading.Thread(target=self._watch, args=(figures, over), daemon=True)
        watcher.start()
        try:
            yield figures
        finally:
            over.set()
            watcher.join()
            figures.ended = time.monotonic()
            after = self.steps()
            figures.steps = {name: after[name] - count for name, count in before.items()}
            figures.processor_s = self._used_s() - used_s
            figures.exit_code = self.learner.process.poll()

    def during(self, seconds: float) -> Figures:
        """Measure so many seconds."""
        with self.measuring() as figures:
            time.sleep(seconds)  # the measurement itself
        return figures

    def _watch(self, figures: Figures, over: threading.Event) -> None:
        asked = [topics.beacon("default")]
        with (
            fresh_context() as context,
            sockets.feed_subscriber(
                context, self.learner.address, asked, keys=self.learner.keys
            ) as feed,
        ):
            while True:
                last = over.is_set()
                self._sample(figures)
                while not last and feed.poll(round(1000 * SAMPLE_S), zmq.POLLIN):
                    feed.recv_multipart()
                    figures.beacons.append(time.monotonic())
                    self._sample(figures)
                    last = over.is_set()
                if last:
                    return

    def _sample(self, figures: Figures) -> None:
        try:
            figures.memory_mb.append(self.learner.own_mb())
            used = psutil.Process(self.learner.pid).num_fds()
            figures.descriptors = max(figures.descriptors, used)
        except (psutil.Error, AssertionError, OSError):
            figures.exit_code = self.learner.process.poll()  # it has just ended

    def _used_s(self) -> float:
        return self.learner.cpu_s() if self.learner.running else 0.0

    # ---- the end

    def audit(self) -> tuple[int, str]:
        """End actors, learner and broker in this order; return what the audit says."""
        self._end(*self.honest.values(), self.learner, *([self.broker] if self.broker else []))
        receipts = sorted(self.shell.folder.glob("*.receipts"))
        run = self.shell.folder / "runs" / "victim"
        words = [Path(sys.executable).parent / "learner", "audit", run, "--against", *receipts]
        done = run_to_end(words, within_s=120)
        return done.returncode, done.stdout + done.stderr

    @staticmethod
    def _end(*programs: Program) -> None:
        for program in programs:
            if program.running:
                program.send(signal.SIGTERM)
                program.ended()

    # ---- the beginning

    def open(
        self, flags: tuple[object, ...], world: str, actors: int, relayed: int, broker: bool
    ) -> None:
        """Start all; return when each honest actor has steps that count."""
        guard = ("--keys", self.keys_folder) if self.keys_folder is not None else ()
        path = {"PYTHONPATH": os.pathsep.join((str(HABITATS), os.environ.get("PYTHONPATH", "")))}
        imports = ("--import", "habitats") if world.startswith("habitats/") else ()
        words = ("--name", "victim", "--env", world, "--keep-journal", *imports, *guard)
        self.learner = self.shell.learner(*words, *FREE, *flags, **path).listens()
        if self.keys_folder is not None:
            self.learner.keys = key_files.client_keys(self.label("watcher"))
        if broker or relayed:
            self._open_broker(guard)
        for number in range(actors + relayed):
            name = f"honest-{number}"
            address = self.learner.address if number < actors else self.front
            assert address is not None
            held = ("--keys", self.label("honest")) if self.keys_folder is not None else ()
            receipts = ("--acknowledged", self.shell.folder / f"{name}.receipts")
            self.honest[name] = self.shell.actor(
                address, "--name", name, *receipts, *imports, *held, **path
            )
        eventually(lambda: all(self.steps().values()), "honest actors to be heard", JOINED_S)

    def _open_broker(self, guard: tuple[object, ...]) -> None:
        held: tuple[object, ...] = ()
        if self.keys_folder is not None:
            held = ("--upstream-keys", self.label("edge", key_files.BROKER))
        upstream = self.learner.address
        words = (upstream, "--upstream-feed-port", upstream.feed_port, "--port", 0, *guard, *held)
        self.broker = self.shell.start("broker", *words)
        found = self.broker.says(r"listening: actor (\S+) \(feed on port (\d+)\)")
        self.front = parse_address(found[1], int(found[2]))


@contextmanager
def victim(
    folder: Path,
    *flags: object,
    keys: bool = False,
    broker: bool = False,
    actors: int = 1,
    relayed: int = 0,
    world: str = SLOW,
    forks: bool = sys.platform == "linux",
) -> Iterator[Victim]:
    """Yield a learner with `flags`, honest actors of its own and `relayed` ones; end them all.

    With `forks` they begin as copies (support/forking.py): a copy shows memory of its parent too.
    """
    with ExitStack() as stack:
        shell = Shell(folder, stack.enter_context(fresh_context()), forks=forks)
        stack.callback(shell.close)
        made = None
        if keys:
            made = folder / "keys"
            key_files.make(made, "mallory")
        target = Victim(shell, made)
        target.open(flags, world, actors, relayed, broker)
        yield target
