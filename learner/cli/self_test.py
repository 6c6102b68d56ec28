"""`learner self-test`: checks an installation by doing in small what a training does."""

import platform
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TextIO

import torch
import zmq

from farflung.common.data.spec import Space
from farflung.common.process.errors import FarflungError
from farflung.common.process.lifecycle import Stop
from farflung.common.process.log import Who
from farflung.learner.algorithms.networks import q_network
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.cli.loopback import Broken, loopback, require
from farflung.learner.config import LearnerConfig
from farflung.learner.core import device
from farflung.learner.core.build import build_core
from farflung.learner.endpoint.endpoint import FIRST_EPOCH, Endpoint
from farflung.learner.graph import acting_graph
from farflung.learner.local.actors import sequential_actors
from farflung.learner.local.children import Children
from farflung.learner.loop import Loop
from farflung.learner.observe.status_builder import StatusBuilder
from farflung.learner.schedule.schedule import InRounds
from farflung.learner.storage.run_folder import new_run
from farflung.learner.storage.saver import Saver
from farflung.learner.supervisor import Supervisor
from farflung.learner.transport.in_process import InProcess

PATIENCE_S = 28.0  # for all checks together; a quiet machine takes ten
VECTOR = Space("box", "float32", (4,))
PICTURE = Space("box", "uint8", (84, 84))


def versions() -> str:
    """Return the packages that are installed, and the machine."""
    packages = (
        "farflung",
        "torch",
        "onnx",
        "onnxruntime",
        "gymnasium",
        "numpy",
        "pyzmq",
        "msgpack",
    )
    listed = ", ".join(f"{package} {version(package)}" for package in packages)
    machine = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    return f"{listed}, libzmq {zmq.zmq_version()}, {machine}"


def training_device() -> str:
    """Return the device that training would run on."""
    chosen, reason = device.choose("auto")
    return f"training runs on {chosen} ({reason}), and a product on it is right: {_product(chosen)}"


def check_acting_graph() -> str:
    """Export the built-in networks and prove the graphs against them."""
    sizes = []
    for space, stack in ((VECTOR, 1), (PICTURE, 4)):
        module = q_network({"": space}, stack, actions=6, hidden=(32,), dueling=True)
        acting = acting_graph.export(
            module, acting_graph.observation_inputs({"": space}, stack), ("q",)
        )
        acting_graph.prove(module, acting)
        sizes.append(len(acting.model))
    return (
        "a perceptron and a convolutional network answer as torch does under any weights "
        f"(graphs of {sizes[0]} and {sizes[1]} bytes)"
    )


def repetition() -> str:
    """Train twice with one seed and compare the results."""
    first, second = _trained(0), _trained(0)
    if first != second:
        raise Broken(f"two sequential trainings with one seed differ: {first} and {second}")
    return f"two sequential trainings with one seed end with the same parameters ({first})"


# Each is called with the moment at which its waiting ends, and returns a sentence.
CHECKS: dict[str, Callable[[float], str]] = {
    "versions": lambda end: versions(),
    "device": lambda end: training_device(),
    "acting graph": lambda end: check_acting_graph(),
    "repetition": lambda end: repetition(),
    "loopback": loopback,
}


def self_test(
    stream: TextIO,
    checks: Mapping[str, Callable[[float], str]] = CHECKS,
    say: Callable[[str], object] = lambda doing: None,
) -> int:
    """Run all checks and write a line for each; return 0 if everything works, else 1."""
    started_at = time.monotonic()
    failed = []
    for name, check in checks.items():
        say(f"checking: {name}")
        try:
            verdict = f"ok      {name}: {check(started_at + PATIENCE_S)}"
        except Exception as error:  # the top of a check: the others run all the same
            failed.append(name)
            kind = "" if isinstance(error, FarflungError) else f"{type(error).__name__}: "
            verdict = f"FAILED  {name}: {kind}{error}"
        stream.write(verdict + "\n")
        stream.flush()
    verdict = f"These do not work: {', '.join(failed)}." if failed else "This installation works."
    stream.write(f"{verdict} ({time.monotonic() - started_at:.0f} s)\n")
    return 1 if failed else 0


def _product(where: torch.device) -> float:
    ones = torch.ones(8, 8, device=where)
    found = float((ones @ ones).sum())
    require(found == 512, f"a product of ones on {where} is {found:g} instead of 512")
    return found


def _trained(seed: int) -> str:
    """Return a hash of the parameters that a short sequential training ends with."""
    config = LearnerConfig(
        mode="sequential",
        seed=seed,
        steps=256,
        horizon=8,
        capacity=1000,
        warmup=64,
        replay_ratio=2.0,
        batch_size=16,
        evaluate_every=0,
        settings=DQNSettings(hidden=(16,)),
    )
    with tempfile.TemporaryDirectory() as folder, Children(Path(folder)) as children:
        run = new_run(folder, "self-test", config.environment, "")
        core = build_core(config, run, torch.device("cpu"), FIRST_EPOCH)
        builder = StatusBuilder(config, run, core, "cpu")
        endpoint, stop = Endpoint(core.spec), Stop()
        transport = InProcess(endpoint, sequential_actors(config, stop))
        try:
            who = Who("learner", run.name)
            started_at = time.monotonic()
            supervisor = Supervisor(
                config,
                core,
                builder,
                Saver(run, core),
                transport,
                children,
                stop,
                who,
                started_at,
            )
            Loop(core, InRounds(), endpoint, transport).run(supervisor)
        finally:
            transport.close()
            stop.close()
        return core.fingerprint
