"""From a configuration to a learner: the world is described, the algorithm made, the acting graph written and proved."""

import logging
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from msgspec import structs

from farflung.common import heads
from farflung.common.data import seeds
from farflung.common.data.spec import Graph, Spec
from farflung.common.process import plugins
from farflung.common.process.errors import ConfigurationError, FarflungError, Refused
from farflung.learner import talk
from farflung.learner.algorithms.protocol import Algorithm, AlgorithmClass
from farflung.learner.config import LearnerConfig
from farflung.learner.core.core import Core
from farflung.learner.core.pacing import Pacing
from farflung.learner.endpoint.publisher import Publisher
from farflung.learner.endpoint.receiver import Receiver
from farflung.learner.graph import acting_graph
from farflung.learner.storage import checkpoint, manifest
from farflung.learner.storage.recover import Recovered
from farflung.learner.storage.run_folder import Run
from farflung.learner.talk import Talk

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Learner:
    """The parts that every mode drives."""

    core: Core
    talk: Talk

    @property
    def receiver(self) -> Receiver:
        """What comes in."""
        return self.talk.receiver

    @property
    def publisher(self) -> Publisher:
        """What goes out."""
        return self.talk.publisher


def learner(
    config: LearnerConfig,
    run: Run,
    device: torch.device,
    past: Recovered | None = None,
    known: Talk | None = None,
) -> Learner:
    """Everything but sockets and threads; after a life before this one, if there was one, and in a talk that has begun already."""
    torch.manual_seed(
        seeds.number(config.seed, "torch")
    )  # for networks that are random themselves, as by dropout
    draft = _draft(config, run)
    algorithm = _algorithm(config, draft, device)
    if config.init and not manifest.kept(run.folder):
        _start_from(config.init, algorithm)
    if known is not None:
        _require_the_same(algorithm, draft, known.spec)
    else:
        spec = structs.replace(draft, graph=_written(algorithm, draft))
        _require_head(spec)
        talk.keep(run, spec)
        known = talk.talk(spec, *((past.inbox, past.roster) if past is not None else ()))
    seed = seeds.number(config.seed, "replay")
    replay = algorithm.replay(
        known.spec, capacity=config.capacity, batch_size=config.batch_size, seed=seed
    )
    core = Core(known.spec, algorithm, replay, pacing(config), known.epoch)
    core.last_good = partial(checkpoint.last_good, run.folder)
    return Learner(core, known)


def pacing(config: LearnerConfig) -> Pacing:
    """The replay ratio, with room for as many rows as the warm-up has unless a tolerance is given."""
    parcel = config.horizon * config.environments
    least = config.batch_size + config.replay_ratio * parcel
    tolerance = config.tolerance or max(2 * least, config.replay_ratio * config.warmup)
    return Pacing(config.replay_ratio, config.batch_size, config.warmup, parcel, tolerance)


def _algorithm_class(config: LearnerConfig) -> AlgorithmClass:
    if config.algorithm == "dqn":
        from farflung.learner.algorithms.dqn import DQN

        return DQN
    found: AlgorithmClass = plugins.find(config.algorithm)
    if getattr(found, "head", None) not in heads.names():
        raise ConfigurationError(
            f"{config.algorithm} must say what its policy answers with: head = one of {', '.join(heads.names())}"
        )
    if missing := [name for name in ("name", "Settings", "columns") if not hasattr(found, name)]:
        raise ConfigurationError(
            f"{config.algorithm} has no {missing[0]}: docs/algorithms.md lists what an algorithm needs"
        )
    return found


def _draft(config: LearnerConfig, run: Run) -> Spec:
    """Return the spec without a graph, with the extra columns that the algorithm asks for."""
    algorithm = _algorithm_class(config)
    draft = talk.describe(config, run, algorithm.head)
    return structs.replace(draft, extras=algorithm.columns(draft, config.settings))


def _algorithm(config: LearnerConfig, draft: Spec, device: torch.device) -> Algorithm:
    model = plugins.find(config.model) if config.model else None
    make = _algorithm_class(config)
    try:
        return make(
            draft,
            config.settings,
            device=device,
            seed=seeds.number(config.seed, "network"),
            model=model,
        )
    except FarflungError:
        raise
    except Exception as error:  # somebody else's code
        log.exception("the algorithm cannot be made")
        whose = f"--model {config.model}" if config.model else f"--algorithm {config.algorithm}"
        raise ConfigurationError(
            f"{whose} cannot be made for {config.environment}: {error!r}"
        ) from error


def _written(algorithm: Algorithm, draft: Spec) -> Graph:
    """The acting graph, and it is proved."""
    module = algorithm.policy()
    acting = acting_graph.export(
        module,
        acting_graph.observation_inputs(draft.observation, draft.stack),
        heads.outputs(draft),
    )
    acting_graph.prove(module, acting)
    return acting


def _require_the_same(algorithm: Algorithm, draft: Spec, spec: Spec) -> None:
    """Show that the graph in the run's folder is that of this policy still: actors have it."""
    if draft.extras != spec.extras:
        asked, kept = ([extra.name for extra in each.extras] for each in (draft, spec))
        raise ConfigurationError(
            f"The algorithm asks for the extra columns {asked}, and this run's journal has {kept}: "
            "--resume goes on with those, --init starts another run from its weights"
        )
    try:
        if algorithm.head != spec.head:
            raise ConfigurationError(
                f"The policy answers with {algorithm.head}, and the acting graph with {spec.head}."
            )
        acting_graph.prove(algorithm.policy(), spec.graph)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{error} This run began with another network: --resume goes on with that one, --init starts another run from its weights"
        ) from error


def _require_head(spec: Spec) -> None:
    """Refuse here what every actor would refuse: a policy that answers in another form than its algorithm says."""
    try:
        heads.require(spec)
    except Refused as refusal:
        raise ConfigurationError(f"the policy cannot act: {refusal.detail}") from refusal


def _start_from(folder: str, algorithm: Algorithm) -> None:
    try:
        algorithm.restore(checkpoint.load(Path(folder)).tensors)
    except (RuntimeError, KeyError, ValueError) as error:
        reason = " ".join(str(error).split())  # torch takes a line for each tensor
        raise ConfigurationError(
            f"--init {folder}: its weights do not fit this algorithm, network and environment ({reason})"
        ) from error
