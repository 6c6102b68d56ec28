"""Memory and time of an actor to its first parcel and of a learner to its first update; idle cost.

`python bench/startup.py [--quick] [--imports]` prints one JSON line. The actor is an ordinary
process that dials a learner in this one over loopback: seconds from its start to its hello and to
its first parcel, and its peak memory, with 1 and 64 CartPoles, and with a convolutional network on
four frames of 84 by 84 bytes. The learner is an ordinary process with one local actor: seconds to
its first update. The idle processes are an actor without a learner and a learner without actors.
`--imports` adds the slowest packages of an actor. `--algorithms` measures one actor with the acting
graph of each built-in algorithm instead, with its own defaults.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import _measure
import psutil

from bench import _learner
from farflung.common.net.address import Address
from farflung.common.process.plugins import import_packages
from farflung.learner.config import LearnerConfig, load
from farflung.learner.local.children import actor_command
from farflung.learner.loop import Loop
from farflung.learner.transport.network_thread import NetworkThread

PATIENCE_S = 60.0
TESTS = str(Path(__file__).parents[1] / "tests")  # where the toy world with images is
IMPORTS = (
    "import farflung.actor.main, farflung.actor.connection.policy_client, "
    "farflung.actor.connection.sockets, farflung.actor.loop, farflung.actor.worlds.gymnasium, "
    "gymnasium.envs.classic_control.cartpole"
)


GRAPHS = {  # flags of a learner; bc acts with a perceptron as that of dqn
    "dqn": "--env CartPole-v1",
    "dqn, noisy": "--env CartPole-v1 --dqn.noisy",
    "rainbow": "--env CartPole-v1 --dqn.noisy --dqn.dueling --dqn.distribution categorical",
    "r2d2": "--env CartPole-v1 --algorithm r2d2",
    "ppo": "--env CartPole-v1 --algorithm ppo",
    "impala": "--env CartPole-v1 --algorithm impala",
    "ppo, continuous": "--env Pendulum-v1 --algorithm ppo",
    "sac": "--env Pendulum-v1 --algorithm sac",
    "td3": "--env Pendulum-v1 --algorithm td3",
}


def main() -> None:
    """Measure one after the other: each needs the machine to itself."""
    quick = "--quick" in sys.argv
    sys.path.append(TESTS)
    if "--algorithms" in sys.argv:
        publishes = _measure.PUBLISH in sys.argv
        _measure.report("algorithms", {"graphs": of_algorithms(quick)}, publishes=publishes)
        return
    rounds, idle_s = (1, 0.5) if quick else (5, 4.0)
    figures: dict[str, object] = {}
    import_packages(["support.worlds"])
    images = _learner.exploring("toys/Picture-v0", stack=4, capacity=1000)
    learners = (
        ("actor_1", _learner.cartpole(), 1),
        ("actor_64", _learner.cartpole(), 64),
        ("actor_cnn", images, 1),
    )
    for name, learner, environments in learners:
        if not quick or environments == 1:
            with _learner.listening(learner) as (link, loop):
                figures[name] = spreads(
                    partial(actor_start, learner, link, loop, environments), rounds
                )
    figures["learner"] = spreads(learner_start, 1 if quick else 2)
    idlers = {
        "actor": actor_command(
            Address("127.0.0.1", 9, 10), "idle", environments=1, policy="default"
        )
    }
    if not quick:
        idlers["learner"] = learner_command("--log-level", "error")
    figures["idle_cpu_percent"] = {name: idle(command, idle_s) for name, command in idlers.items()}
    if "--imports" in sys.argv:
        figures["imports_ms"] = imports()
    _measure.report("startup", figures)


def of_algorithms(quick: bool) -> list[dict[str, object]]:
    """Return the memory of one actor with each acting graph, and its size."""
    found: list[dict[str, object]] = []
    for name, flags in GRAPHS.items():
        config = load(flags.split()).config
        graph = _learner.learner_with(config).core.spec.graph
        figures = spreads(partial(fresh_start, config), 1 if quick else 5)
        sizes = {"bytes": len(graph.model), "parameters": sum(t.size // 4 for t in graph.weights)}
        found.append({"algorithm": name, **sizes, **figures})
    return found


def fresh_start(config: LearnerConfig) -> dict[str, float]:
    """Measure an actor at a learner of its own: a rollout without updates lets others wait."""
    learner = _learner.learner_with(config)
    with _learner.listening(learner) as (link, loop):
        return actor_start(learner, link, loop, 1)


def actor_start(
    learner: _learner.CoreAndEndpoint, link: NetworkThread, loop: Loop, environments: int
) -> dict[str, float]:
    """Measure one actor from its start until its first parcel arrives."""
    name = f"bench-{time.monotonic_ns()}"
    start = time.monotonic()
    imports = ("support.worlds",) if learner.core.spec.world.environment.startswith("toys/") else ()
    with process(
        actor_command(
            link.address, name, environments=environments, policy="default", imports=imports
        )
    ) as actor:
        hello_s = until(lambda: name in learner.endpoint.receiver.seen) - start
        parcel_s = until(lambda: bool(learner.endpoint.queue.parcels)) - start
        drained = time.monotonic() + 0.5  # its memory peaks only after acting for a while
        while time.monotonic() < drained:
            _learner.drain(loop)
        memory = resident_most(actor.pid)
    loop.drain()
    return {"hello_s": hello_s, "parcel_s": parcel_s, "megabytes": memory}


def learner_start() -> dict[str, float]:
    """Measure a learner with one actor until its first update."""
    start = time.monotonic()
    with process(
        learner_command("--actors", "1", "--until", "updates >= 1", "--evaluate-every", "0")
    ) as learner:
        assert learner.stdout is not None
        for line in learner.stdout:
            if line.startswith("{") and json.loads(line)["updates"]:
                break
        return {"update_s": time.monotonic() - start, "megabytes": resident_most(learner.pid)}


def learner_command(*flags: str) -> tuple[str, ...]:
    """Return the command of a learner with JSON output."""
    return (
        sys.executable,
        "-P",
        "-m",
        "farflung.learner.main",
        "--env",
        "CartPole-v1",
        "--port",
        "0",
        "--ui",
        "json",
        *flags,
    )


def idle(command: tuple[str, ...], seconds: float) -> float:
    """Return the percentage of one processor that an idle process uses."""
    with process(command) as idler:
        watched = psutil.Process(idler.pid)
        settled = until(lambda: len(watched.threads()) > 2)  # its sockets are open
        time.sleep(min(seconds, 2.0))
        before, start = sum(watched.cpu_times()[:2]), time.monotonic()
        time.sleep(seconds)
        assert settled
        return round(100 * (sum(watched.cpu_times()[:2]) - before) / (time.monotonic() - start), 2)


def imports(most: int = 8) -> dict[str, float]:
    """Return the milliseconds of the slowest packages, each with its own new imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", IMPORTS],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    taken: dict[str, float] = {}
    for line in done.stderr.splitlines()[1:]:
        _, microseconds, name = line.removeprefix("import time:").split("|")
        if "." not in name.strip():
            taken[name.strip()] = int(microseconds) / 1000
    return dict(sorted(taken.items(), key=lambda item: -item[1])[:most])


@contextmanager
def process(command: tuple[str, ...]) -> "Iterator[subprocess.Popen[str]]":
    """Run a process in a folder of its own while the block runs."""
    with tempfile.TemporaryDirectory() as folder:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(
            command, **pipes, text=True, cwd=folder, env=environment()
        ) as started:
            try:
                yield started
            finally:
                started.terminate()
                started.wait()


def environment() -> dict[str, str]:
    """Return our variables, but allow bytecode to be written, as in an installation."""
    found = os.pathsep.join([TESTS, os.environ.get("PYTHONPATH", "")])
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"OMP_NUM_THREADS": "1", "PYTHONPATH": found}


def until(condition: Callable[[], bool]) -> float:
    """Wait until the condition holds, and return that moment."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the condition never held")
        time.sleep(0.001)
    return time.monotonic()


def resident_most(process: int) -> float:
    """Return the peak memory of a running process in megabytes."""
    status = Path(f"/proc/{process}/status").read_text().splitlines()
    (peak,) = [line.split()[1] for line in status if line.startswith("VmHWM")]
    return int(peak) / 1024


def spreads(measure: Callable[[], dict[str, float]], rounds: int) -> dict[str, object]:
    """Return median and range of each value, after an uncounted round that fills caches."""
    if rounds > 1:
        measure()
    rows = [measure() for _ in range(rounds)]
    return {name: _measure.spread([row[name] for row in rows]) for name in rows[0]}


if __name__ == "__main__":
    main()
