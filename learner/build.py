"""From a configuration to a learner: the world is described, the algorithm made, the acting graph written and proved."""

import dataclasses
import logging
import secrets
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import torch

from actor import environment
from actor.explore import require_head
from common import plugins, seeds
from common.delivery import Inbox
from common.errors import ConfigurationError, FarflungError, Refused
from common.membership import Roster, RosterState, Snapshots
from common.spec import Evaluation, Exploration, Graph, Spec, World, column_name
from learner import checkpoint, graph
from learner.algorithms.protocol import Algorithm
from learner.config import LearnerConfig
from learner.gate import Gate
from learner.herald import Herald
from learner.pacing import Pacing
from learner.run import Run
from learner.training import Training

log = logging.getLogger(__name__)

OUTPUTS = {"q": ("q",), "logits": ("logits",), "gaussian": ("mean", "log_std")}
FIRST_EPOCH = 1
STARTS = 1 << 20  # of each index in one life of the learner: places that were given out after the last checkpoint are not used again
UNWRITTEN = Graph(b"", (), (), ())


@dataclass(frozen=True, slots=True)
class Learner:
    """The parts that every mode drives."""

    training: Training
    gate: Gate
    herald: Herald


def learner(
    config: LearnerConfig, run: Run, device: torch.device, inbox: Inbox | None = None, members: RosterState | None = None
) -> Learner:
    """Everything but sockets and threads; with the inbox and the members of a life before this one, if there was one."""
    torch.manual_seed(seeds.number(config.seed, "torch"))  # for networks that are random themselves, as by dropout
    draft = spec(config, run, head=_algorithm_class(config).head)
    algorithm = _algorithm(config, draft, device)
    if config.init:
        _start_from(config.init, algorithm)
    module = algorithm.policy()
    acting = graph.export(module, graph.observation_inputs(draft.observation, draft.stack), OUTPUTS[draft.head])
    graph.prove(module, acting)
    final = dataclasses.replace(draft, graph=acting)
    _require_head(final)
    run.file("policy", "graph.onnx").write_bytes(acting.model)
    replay = algorithm.replay(final, capacity=config.capacity, batch_size=config.batch_size, seed=seeds.number(config.seed, "replay"))
    inbox = inbox or Inbox(FIRST_EPOCH)
    epoch = inbox.epoch
    training = Training(final, algorithm, replay, pacing(config), epoch)
    training.last_good = partial(checkpoint.last_good, run.folder)
    snapshots = Snapshots()
    first_start = (epoch - FIRST_EPOCH) * STARTS
    roster = Roster(first_start) if members is None else Roster.restore(members, time.monotonic(), first_start)
    gate = Gate(final, inbox, roster, snapshots)
    return Learner(training, gate, Herald(final, secrets.randbits(63), epoch, gate, snapshots))


def spec(config: LearnerConfig, run: Run, head: str) -> Spec:
    """What actors will be told, but for the graph."""
    world = World(config.environment, config.arguments, config.wrappers, config.seed)
    described = environment.describe(world)
    images = [key for key, leaf in described.observation.items() if leaf.dtype == "uint8" and len(leaf.shape) >= 2]
    return Spec(
        run=run.identity,
        policy=config.policy,
        mode=config.mode,
        world=world,
        observation=described.observation,
        action=described.action,
        head=head,  # type: ignore[arg-type]  # the algorithm's own word, one of the three
        horizon=config.horizon,
        stack=config.stack,
        graph=UNWRITTEN,
        exploration=Exploration(config.exploration_start, config.exploration_end, config.exploration_steps, config.exploration_ladder),
        evaluation=Evaluation(config.evaluate_every, config.evaluate_episodes),
        compression={column_name(key): "lz4" for key in images if config.compress},
    )


def pacing(config: LearnerConfig) -> Pacing:
    """The replay ratio, with room for as many rows as the warm-up has unless a tolerance is given."""
    parcel = config.horizon * config.environments
    least = config.batch_size + config.replay_ratio * parcel
    tolerance = config.tolerance or max(2 * least, config.replay_ratio * config.warmup)
    return Pacing(config.replay_ratio, config.batch_size, config.warmup, parcel, tolerance)


def _algorithm_class(config: LearnerConfig) -> type[Algorithm]:
    if config.algorithm == "dqn":
        from learner.algorithms.dqn import DQN

        return cast(type[Algorithm], DQN)
    found: type[Algorithm] = plugins.find(config.algorithm)
    if getattr(found, "head", None) not in OUTPUTS:
        raise ConfigurationError(f"{config.algorithm} must say what its policy answers with: head = one of {', '.join(OUTPUTS)}")
    return found


def _algorithm(config: LearnerConfig, draft: Spec, device: torch.device) -> Algorithm:
    model = plugins.find(config.model) if config.model else None
    make: type = _algorithm_class(config)
    try:
        made: Algorithm = make(draft, config.settings, device=device, seed=seeds.number(config.seed, "network"), model=model)
    except FarflungError:
        raise
    except Exception as error:  # somebody else's code
        log.exception("the algorithm cannot be made")
        whose = f"--model {config.model}" if config.model else f"--algorithm {config.algorithm}"
        raise ConfigurationError(f"{whose} cannot be made for {config.environment}: {error!r}") from error
    return made


def _require_head(spec: Spec) -> None:
    """Refuse here what every actor would refuse: a policy that answers in another form than its algorithm says."""
    try:
        require_head(spec)
    except Refused as refusal:
        raise ConfigurationError(f"the policy cannot act: {refusal.detail}") from refusal


def _start_from(folder: str, algorithm: Algorithm) -> None:
    try:
        algorithm.restore(checkpoint.load(Path(folder)).tensors)
    except (RuntimeError, KeyError, ValueError) as error:
        reason = " ".join(str(error).split())  # torch takes a line for each tensor
        raise ConfigurationError(f"--init {folder}: its weights do not fit this algorithm, network and environment ({reason})") from error
