"""From settings to a core: the algorithm is made, and the acting graph written and proved."""

import logging
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from msgspec import structs
from torch import nn

from farflung.actor.acting import spec_check
from farflung.actor.worlds import families
from farflung.actor.worlds.description import Description
from farflung.common import heads
from farflung.common.data import seeds
from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import INTERVENED, Column, Graph, Spec, World, metric_column
from farflung.common.data.states import next_name, state_columns
from farflung.common.process import plugins
from farflung.common.process.errors import ConfigurationError, FarflungError, Refused
from farflung.learner.algorithms.builtin import BUILT_IN, load
from farflung.learner.algorithms.protocol import Algorithm, AlgorithmClass
from farflung.learner.config import LearnerConfig
from farflung.learner.core.core import Core
from farflung.learner.core.curves import wanted
from farflung.learner.core.normalisation import Normaliser, acting_policy
from farflung.learner.core.pacing import Pacing
from farflung.learner.core.spec import UNWRITTEN, describe, save_spec, shared_world
from farflung.learner.core.trained import require_follower, require_tensors, require_trained
from farflung.learner.demonstrations.mixing import mixture_of, own_rows
from farflung.learner.graph import acting_graph, recurrence
from farflung.learner.schedule.rollout import rollout_of
from farflung.learner.schedule.rounds import replay_ratio, round_updates
from farflung.learner.storage import checkpoint, manifest
from farflung.learner.storage.manifest import NORMALISATION
from farflung.learner.storage.run_folder import Run

log = logging.getLogger(__name__)

PARTS = (  # of an algorithm's class and instances
    *("name", "Settings", "columns"),
    *("policy", "replay", "gradients", "apply", "state", "restore"),
)
GAMMA = 0.99  # of the sums that rewards are normalised by, where an algorithm has no gamma


def build_core(
    config: LearnerConfig,
    run: Run,
    device: torch.device,
    epoch: int,
    spec: Spec | None = None,
    demonstrated: Sequence[Parcel] = (),
) -> Core:
    """Return the core of a run: algorithm, replay and pacing.

    With a spec, its acting graph is the one that actors have, and must still be that of this
    policy. Without one, the graph is written, proved and saved.
    """
    world = shared_world(config)
    number = partial(_number, config.seed, world.branch(config.policy))
    # For networks that draw numbers of their own, as dropout does.
    torch.manual_seed(number("torch"))
    masked = spec is None and config.action_mask and _knows_masks(config)
    described = families.describe(world, config.policy, masked=masked)
    mask = described.mask if spec is None else spec.mask  # a run goes on as it began
    draft = _draft(config, run, world, described, mask if config.action_mask else None)
    algorithm = _algorithm(config, draft, device, number("network"))
    require_tensors(algorithm.state())
    normaliser = _normaliser(config, draft)
    policy = acting_policy(algorithm, normaliser)
    draft = _recorded(draft, algorithm)
    if config.init and not manifest.kept(run.folder):
        _start_from(config.init, algorithm, normaliser)
    if spec is not None:
        _require_same_graph(algorithm.head, policy, draft, spec)
        _require_metrics(config, spec)
    else:
        spec = structs.replace(draft, graph=_written(policy, draft))
        _require_head(spec)
        save_spec(run, spec, described.starts)
    if spec.learning is not None:
        require_follower(algorithm, config.algorithm)
        require_trained(policy, spec.graph)
    replay = algorithm.replay(
        spec,
        capacity=config.capacity,
        batch_size=own_rows(config),
        seed=number("replay"),
    )
    core = Core(spec, algorithm, replay, pacing(config, spec.agents), epoch, normaliser)
    core.reward_limit = config.clip_rewards
    shown = number("demonstrations"), demonstrated
    core.mixture = mixture_of(config, spec, algorithm, described.starts, *shown)
    core.last_good = partial(checkpoint.last_good, run.folder)
    return core


def pacing(config: LearnerConfig, agents: int = 1) -> Pacing:
    """Return the pacing of these settings; without a tolerance the warm-up's rows have room.

    A policy plays so many agents in each environment.

    Where each round has its number of updates, only the warm-up waits.
    """
    if round_updates(config):
        return Pacing(math.inf, config.batch_size, config.warmup, 1)
    parcel, ratio = config.horizon * config.environments * agents, replay_ratio(config)
    if rollout := rollout_of(config.settings):
        ahead = config.tolerance or 0.0
        return Pacing(ratio, config.batch_size, 0, parcel, ahead, rollout=rollout.rows)
    least = config.batch_size + ratio * parcel
    tolerance = config.tolerance or max(2 * least, ratio * config.warmup)
    return Pacing(ratio, config.batch_size, config.warmup, parcel, tolerance)


def _algorithm_class(config: LearnerConfig) -> AlgorithmClass:
    if config.algorithm in BUILT_IN:
        return load(config.algorithm)
    found: AlgorithmClass = plugins.find(config.algorithm)
    if getattr(found, "head", None) not in heads.names():
        raise ConfigurationError(
            f"{config.algorithm} must name the head of its policy: "
            f"head = one of {', '.join(heads.names())}"
        )
    if missing := [name for name in PARTS if getattr(found, name, None) is None]:
        raise ConfigurationError(
            f"{config.algorithm} has no {missing[0]}: "
            "docs/algorithms.md lists the parts of an algorithm"
        )
    return found


def _knows_masks(config: LearnerConfig) -> bool:
    head = heads.find(_algorithm_class(config).head)
    return getattr(head, "masks", False)


def _number(seed: int, branch: tuple[str, ...], purpose: str) -> int:
    """Return the seed for a purpose, other ones for other policies of a world."""
    return seeds.number(seed, purpose, *branch)


def _draft(
    config: LearnerConfig, run: Run, world: World, described: Description, mask: Column | None
) -> Spec:
    """Return the spec without a graph, with the extra columns that the run asks for."""
    algorithm = _algorithm_class(config)
    head = getattr(algorithm, "heads", {}).get(described.action.kind, algorithm.head)
    draft = describe(config, run, head, world, described)
    extras = algorithm.columns(draft, config.settings)
    if mask is not None and mask.name not in [extra.name for extra in extras]:
        extras += (mask,)
    if config.interventions and INTERVENED not in extras:
        extras += (INTERVENED,)
    metrics = map(metric_column, config.reported)
    return structs.replace(draft, extras=(*extras, *metrics))


def _recorded(draft: Spec, algorithm: Algorithm) -> Spec:
    """Return the spec with the recurrent states of the policy, and a column for each."""
    graph = structs.replace(UNWRITTEN, inputs=recurrence.state_inputs(algorithm.policy()))
    return structs.replace(draft, graph=graph, extras=(*draft.extras, *state_columns(graph)))


def _algorithm(config: LearnerConfig, draft: Spec, device: torch.device, seed: int) -> Algorithm:
    model = plugins.find(config.model) if config.model else None
    make = _algorithm_class(config)
    try:
        return make(
            draft,
            config.settings,
            device=device,
            seed=seed,
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


def _normaliser(config: LearnerConfig, draft: Spec) -> Normaliser | None:
    observations, rewards = config.normalise_observations, config.normalise_rewards
    if not observations and not rewards:
        return None
    gamma = getattr(config.settings, "gamma", GAMMA)
    return Normaliser(draft, observations=observations, rewards=rewards, gamma=gamma)


def _written(module: nn.Module, draft: Spec) -> Graph:
    """Return the acting graph of a policy, after its proof."""
    states = draft.graph.inputs
    acting = acting_graph.export(
        module,
        (*acting_graph.observation_inputs(draft.observation, draft.stack), *states),
        (*heads.outputs(draft), *(next_name(state.name) for state in states)),
    )
    acting_graph.prove(module, acting)
    return acting


def _require_same_graph(head: str, policy: nn.Module, draft: Spec, spec: Spec) -> None:
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
        if head != spec.head:
            raise ConfigurationError(
                f"The policy answers with {head}, and the acting graph with {spec.head}."
            )
        acting_graph.prove(policy, spec.graph)
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


def _start_from(folder: str, algorithm: Algorithm, normaliser: Normaliser | None) -> None:
    try:
        found = checkpoint.load(Path(folder))
        algorithm.restore(found.tensors)
        if normaliser is not None:
            normaliser.restore(found.facts.get(NORMALISATION, {}))
    except (RuntimeError, KeyError, ValueError) as error:
        reason = " ".join(str(error).split())  # torch takes a line for each tensor
        raise ConfigurationError(
            f"--init {folder}: its weights do not fit this algorithm, network and environment "
            f"({reason})"
        ) from error
    steps, updates = (found.facts.get(name, 0) for name in ("steps", "updates"))
    log.info(f"starting with the weights of {folder}: {steps:,} steps, {updates:,} updates")
