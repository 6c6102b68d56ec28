"""From settings to a core: the algorithm is made, and the acting graph written and proved."""

import logging
import math
from functools import partial
from pathlib import Path

import torch
from msgspec import structs

from farflung.actor.acting import spec_check
from farflung.actor.worlds import gymnasium
from farflung.actor.worlds.gymnasium import Description
from farflung.common import heads
from farflung.common.data import seeds
from farflung.common.data.spec import INTERVENED, Graph, Spec, metric_column
from farflung.common.process import plugins
from farflung.common.process.errors import ConfigurationError, FarflungError, Refused
from farflung.learner.algorithms.protocol import Algorithm, AlgorithmClass
from farflung.learner.config import LearnerConfig
from farflung.learner.core.core import Core
from farflung.learner.core.curves import reported, wanted
from farflung.learner.core.pacing import Pacing
from farflung.learner.core.spec import describe, save_spec, world_of
from farflung.learner.core.trained import require_trained
from farflung.learner.graph import acting_graph
from farflung.learner.schedule.rounds import replay_ratio, round_updates
from farflung.learner.storage import checkpoint, manifest
from farflung.learner.storage.run_folder import Run

log = logging.getLogger(__name__)


def build_core(
    config: LearnerConfig,
    run: Run,
    device: torch.device,
    epoch: int,
    spec: Spec | None = None,
) -> Core:
    """Return the core of a run: algorithm, replay and pacing.

    With a spec, its acting graph is the one that actors have, and must still be that of this
    policy. Without one, the graph is written, proved and saved.
    """
    # For networks that draw numbers of their own, as dropout does.
    torch.manual_seed(seeds.number(config.seed, "torch"))
    described = gymnasium.describe(world_of(config))
    draft = _draft(config, run, described)
    algorithm = _algorithm(config, draft, device)
    if config.init and not manifest.kept(run.folder):
        _start_from(config.init, algorithm)
    if spec is not None:
        _require_same_graph(algorithm, draft, spec)
        _require_metrics(config, spec)
    else:
        spec = structs.replace(draft, graph=_written(algorithm, draft))
        _require_head(spec)
        save_spec(run, spec, described.starts)
    if spec.learning is not None:
        require_trained(algorithm.policy(), spec.graph)
    replay = algorithm.replay(
        spec,
        capacity=config.capacity,
        batch_size=config.batch_size,
        seed=seeds.number(config.seed, "replay"),
    )
    core = Core(spec, algorithm, replay, pacing(config), epoch)
    core.last_good = partial(checkpoint.last_good, run.folder)
    return core


def pacing(config: LearnerConfig) -> Pacing:
    """Return the pacing of these settings; without a tolerance the warm-up's rows have room.

    Where each round has its number of updates, only the warm-up waits.
    """
    if round_updates(config):
        return Pacing(math.inf, config.batch_size, config.warmup, 1)
    parcel, ratio = config.horizon * config.environments, replay_ratio(config)
    least = config.batch_size + ratio * parcel
    tolerance = config.tolerance or max(2 * least, ratio * config.warmup)
    return Pacing(ratio, config.batch_size, config.warmup, parcel, tolerance)


def _algorithm_class(config: LearnerConfig) -> AlgorithmClass:
    if config.algorithm == "dqn":
        from farflung.learner.algorithms.dqn import DQN

        return DQN
    found: AlgorithmClass = plugins.find(config.algorithm)
    if getattr(found, "head", None) not in heads.names():
        raise ConfigurationError(
            f"{config.algorithm} must name the head of its policy: "
            f"head = one of {', '.join(heads.names())}"
        )
    if missing := [name for name in ("name", "Settings", "columns") if not hasattr(found, name)]:
        raise ConfigurationError(
            f"{config.algorithm} has no {missing[0]}: "
            "docs/algorithms.md lists the parts of an algorithm"
        )
    return found


def _draft(config: LearnerConfig, run: Run, described: Description) -> Spec:
    """Return the spec without a graph, with the extra columns that the algorithm asks for."""
    algorithm = _algorithm_class(config)
    draft = describe(config, run, algorithm.head, described)
    extras = algorithm.columns(draft, config.settings)
    if config.interventions and INTERVENED not in extras:
        extras += (INTERVENED,)
    metrics = map(metric_column, reported(config.metrics))
    return structs.replace(draft, extras=(*extras, *metrics))


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
    except Exception as error:  # a user's code
        log.exception("the algorithm cannot be made")
        flag = f"--model {config.model}" if config.model else f"--algorithm {config.algorithm}"
        raise ConfigurationError(
            f"{flag} cannot be made for {config.environment}: {error!r}"
        ) from error


def _written(algorithm: Algorithm, draft: Spec) -> Graph:
    """Return the acting graph of a policy, after its proof."""
    module = algorithm.policy()
    acting = acting_graph.export(
        module,
        acting_graph.observation_inputs(draft.observation, draft.stack),
        heads.outputs(draft),
    )
    acting_graph.prove(module, acting)
    return acting


def _require_same_graph(algorithm: Algorithm, draft: Spec, spec: Spec) -> None:
    """Refuse a policy that is not the one in the run's acting graph: actors have that graph.

    A run of an older release has no metrics of episodes: it goes on without them.
    """
    if draft.row_extras != spec.row_extras:
        asked, kept = ([extra.name for extra in each.row_extras] for each in (draft, spec))
        raise ConfigurationError(
            f"The algorithm asks for the extra columns {asked}, and this run's journal has {kept}: "
            "--resume continues with those, --init starts another run from its weights"
        )
    try:
        if algorithm.head != spec.head:
            raise ConfigurationError(
                f"The policy answers with {algorithm.head}, and the acting graph with {spec.head}."
            )
        acting_graph.prove(algorithm.policy(), spec.graph)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{error} This run began with another network: --resume continues with that one, "
            "--init starts another run from its weights"
        ) from error


def _require_metrics(config: LearnerConfig, spec: Spec) -> None:
    """Refuse metrics of episodes that a run began without: its actors do not send them."""
    names = wanted(config.metrics, config.condition.metrics)
    if missing := [name for name in names if name not in spec.metrics]:
        raise ConfigurationError(
            f"this run began without the metric {missing[0]}, and its journal has none: --resume "
            "continues with those that it began with, --init starts another run from its weights"
        )


def _require_head(spec: Spec) -> None:
    """Refuse a policy if every actor would: for its outputs, or for the size of its windows."""
    try:
        spec_check.require_bounded(spec, seats=1)
        heads.require(spec)
    except Refused as refusal:
        raise ConfigurationError(f"the policy cannot act: {refusal.detail}") from refusal


def _start_from(folder: str, algorithm: Algorithm) -> None:
    try:
        algorithm.restore(checkpoint.load(Path(folder)).tensors)
    except (RuntimeError, KeyError, ValueError) as error:
        reason = " ".join(str(error).split())  # torch takes a line for each tensor
        raise ConfigurationError(
            f"--init {folder}: its weights do not fit this algorithm, network and environment "
            f"({reason})"
        ) from error
