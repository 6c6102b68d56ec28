"""The check of a spec, which is untrusted input: nothing is allocated or built before it passes."""

import math
from collections.abc import Iterable

from farflung.actor.acting import graph_check
from farflung.common import heads
from farflung.common.data.fields import NAME
from farflung.common.data.learning import Learning
from farflung.common.data.pool import ENTRIES
from farflung.common.data.selfplay import Selfplay
from farflung.common.data.spec import (
    METRICS,
    OBSERVATIONS,
    Column,
    Exploration,
    Space,
    Spec,
    Tensor,
    metric_column,
)
from farflung.common.data.states import EPISODE, STATE, next_name, state_columns, states
from farflung.common.process.errors import ConfigurationError, Refused

SPEC_BYTES = 4 << 30  # of tables for one window: an honest window is one message of 64 MiB
MAX_COLUMNS = 256
MAX_LETTERS = 256  # of a name: modules nest, and torch joins the names of all levels
MAX_POLICIES = 64  # of a world
MAX_AGENTS = 1024  # of a world
MAX_EPISODES = 1 << 20  # of an evaluation: its results are one message
MAX_COUNT = 1 << 53  # of steps, frames, actors, choices: every language counts so far


def require_bounded(spec: Spec, seats: int) -> None:
    """Refuse a spec unless its numbers make sense and its tables for these seats are bounded."""
    _require_names(spec)
    _require_numbers(spec)
    graph = spec.graph
    parts: tuple[Column | Tensor, ...] = (
        *spec.columns,
        *graph.inputs,
        *graph.outputs,
        *graph.weights,
    )
    for part in parts:
        _require_shape(part)
    _require_metrics(spec)
    _require_states(spec)
    _require_seats(spec)
    if spec.learning is not None:
        _require_learning(spec.learning)
    if spec.selfplay is not None:
        _require_selfplay(spec.selfplay)
    _require_space("the actions", spec.action)
    for key, space in spec.observation.items():
        _require_space(key or "the observations", space)
    if spec.action.kind == "box":
        _require(bool(spec.action.low), "it makes no sense: continuous actions without bounds")
    needed = table_bytes(spec, seats)
    _require(
        needed <= SPEC_BYTES,
        f"a horizon of {spec.horizon} steps, {spec.stack} frames in a stack and {seats} seats need "
        f"{gibibytes(needed)} of tables, and an actor has {gibibytes(SPEC_BYTES)} for them: "
        "lower --horizon or --stack of the learner, or --envs here",
    )


def require_playable(spec: Spec, *, collects: bool = True) -> None:
    """Refuse a spec unless its head and graph fit it, are known here, and its learner takes rows.

    One that learns from gradients alone takes none.
    """
    heads.require(spec)
    graph_check.check(spec.graph)
    if collects and spec.learning is not None and spec.learning.alone:
        raise ConfigurationError(
            f"the learner of {spec.run} takes gradients and no rows: join it with `learner worker`"
        )


def _require_learning(learning: Learning) -> None:
    """Refuse learning with numbers that make no sense."""
    counts = {
        "a batch": (1, learning.batch),
        "a capacity": (1, learning.capacity),
        "a warm-up": (0, learning.warmup),
        "a staleness": (0, learning.staleness),
        "updates between versions": (1, learning.publish_every),
    }
    for name, (least, count) in counts.items():
        _require(least <= count <= MAX_COUNT, f"it makes no sense: {name} of {count}")
    _require(0 < learning.ratio < math.inf, f"it makes no sense: a replay ratio {learning.ratio}")


def _require_selfplay(rules: Selfplay) -> None:
    """Refuse games with more scripts than a pool has opponents, or an impossible exploration."""
    scripts, share = rules.scripts, rules.exploration
    _require(
        len(scripts) <= ENTRIES,
        f"it names {len(scripts)} scripts as opponents, and a pool has {ENTRIES} opponents",
    )
    _require(0 <= share <= 1, f"it makes no sense: archived versions with an epsilon of {share}")


def table_bytes(spec: Spec, seats: int) -> int:
    """Return the most memory that the tables of a window take: rows, frames, noise, parcel.

    The parcel is largest where each step is a trajectory of its own, with all frames of its stack.
    """
    seen = sum(_row(column) for column in spec.columns if column.per == "observation")
    others = sum(_row(column) for column in spec.columns if column.per != "observation")
    answered = sum(_row(output) for output in spec.graph.outputs)
    kept = sum(_row(state) for state in states(spec.graph))
    each_step = (spec.stack + 2) * seen + 2 * others + 2 * answered + 32
    return seats * (spec.horizon * each_step + 3 * spec.stack * seen + 2 * kept)


def gibibytes(count: int) -> str:
    """Return bytes for a sentence."""
    return f"{count / (1 << 30):.3g} GiB"


def _row(part: Column | Tensor) -> int:
    return Tensor(part.name, part.dtype, part.shape).size


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Refused("spec", otherwise)


def _require_names(spec: Spec) -> None:
    _require(len(spec.columns) <= MAX_COLUMNS, f"it has more than {MAX_COLUMNS} columns")
    graph, world = spec.graph, spec.world
    tensors = (*graph.inputs, *graph.outputs, *graph.weights)
    names: Iterable[str] = (
        spec.head,
        world.environment,
        *(name for name, _ in world.wrappers),
        *world.seats,
        *_agents(spec),
        *(column.name for column in spec.columns),
        *(tensor.name for tensor in tensors),
        *spec.compression,
    )
    for name in names:
        _require(
            len(name) <= MAX_LETTERS and name.isprintable(),
            f"a name has more than {MAX_LETTERS} letters, or others than text: {name[:40]!r}",
        )


def _require_seats(spec: Spec) -> None:
    """Refuse a world with more policies or agents than an actor serves, or an agent with two."""
    policies, agents = spec.world.seats, _agents(spec)
    for name, count, most in (
        ("policies", len(policies), MAX_POLICIES),
        ("agents", len(agents), MAX_AGENTS),
    ):
        _require(count <= most, f"its world has {count} {name}, and an actor takes {most}")
    for policy in policies:
        _require(
            NAME.fullmatch(policy) is not None,
            f"it makes no sense: {policy[:40]!r} is no name of a policy",
        )
    _require(len({*agents}) == len(agents), "it makes no sense: two policies play one agent")
    _require(
        not policies or spec.policy in policies,
        f"it makes no sense: its own policy {spec.policy} plays no agent of its world",
    )
    for policy, script in spec.world.scripts.items():
        _require(
            policy in policies and policy != spec.policy and NAME.fullmatch(script) is not None,
            f"it makes no sense: a script {script[:40]!r} plays {policy[:40]!r}",
        )


def _agents(spec: Spec) -> list[str]:
    return [agent for agents in spec.world.seats.values() for agent in agents]


def _require_metrics(spec: Spec) -> None:
    """Refuse metrics of episodes that are more than an actor takes, or other than numbers."""
    names = spec.metrics
    _require(len(names) <= METRICS, f"it asks for more than {METRICS} metrics of an episode")
    _require(
        len({*names}) == len(names)
        and all(map(NAME.fullmatch, names))
        and spec.result_extras == tuple(map(metric_column, names)),
        "it makes no sense: a column per result is no metric of an episode",
    )


def _require_states(spec: Spec) -> None:
    """Refuse a recurrent state that does not come back as it went in, or is recorded otherwise."""
    inputs, outputs = spec.graph.inputs, {output.name: output for output in spec.graph.outputs}
    for taken in inputs:
        if taken.name.partition(".")[0] == OBSERVATIONS:
            continue
        _require(
            taken.name.startswith(STATE),
            f"it makes no sense: the graph takes {taken.name}, no observation and no state",
        )
        back = outputs.get(next_name(taken.name))
        _require(
            back is not None and (back.dtype, back.shape) == (taken.dtype, taken.shape),
            f"it makes no sense: the graph takes {taken.name}, and returns no "
            f"{next_name(taken.name)} of its dtype and shape",
        )
    names = [taken.name for taken in inputs]
    _require(len({*names}) == len(names), "it makes no sense: two inputs have one name")
    known = {column.name: column for column in (*state_columns(spec.graph), EPISODE)}
    for extra in spec.row_extras:
        own = extra.name == EPISODE.name or extra.name.startswith(STATE)
        _require(
            not own or extra == known.get(extra.name),
            f"it makes no sense: the column {extra.name} is {extra.dtype} {extra.shape} per "
            f"{extra.per}, and the graph has no such state",
        )


def _require_numbers(spec: Spec) -> None:
    counts = {
        "a horizon": (1, spec.horizon, MAX_COUNT),
        "a stack": (1, spec.stack, MAX_COUNT),
        "a ladder": (0, spec.exploration.ladder, MAX_COUNT),
        "exploration steps": (0, spec.exploration.steps, MAX_COUNT),
        "steps between evaluations": (0, spec.evaluation.every, MAX_COUNT),
        "episodes of an evaluation": (0, spec.evaluation.episodes, MAX_EPISODES),
        "steps of such an episode": (1, spec.evaluation.max_steps, MAX_COUNT),
    }
    for name, (least, count, most) in counts.items():
        _require(
            least <= count <= most,
            f"it makes no sense: {name} of {count}, where {least} to {most} are possible",
        )
    _require_exploration(spec.exploration)


def _require_exploration(exploration: Exploration) -> None:
    for epsilon in (exploration.start, exploration.end):
        _require(0 <= epsilon <= 1, f"it makes no sense: an epsilon of {epsilon}")  # no NaN either
    noise, correlation = exploration.noise, exploration.correlation
    _require(0 <= noise <= 1, f"it makes no sense: noise of {noise}")
    _require(0 <= correlation < 1, f"it makes no sense: noise with a correlation of {correlation}")


def _require_shape(part: Column | Tensor) -> None:
    most = graph_check.MAX_DIMENSIONS
    _require(
        part.dtype in graph_check.ELEMENTS
        and len(part.shape) <= most
        and all(0 <= side <= MAX_COUNT for side in part.shape),
        f"it makes no sense: {part.name} is {part.dtype[:MAX_LETTERS]} {part.shape[:most]}",
    )


def _require_space(name: str, space: Space) -> None:
    """Refuse a space with other numbers than its kind has."""
    count = math.prod(space.shape)
    sizes = {"box": 0, "discrete": 1, "multidiscrete": count}[space.kind]
    sound = (
        len(space.sizes) == sizes
        and all(1 <= size <= MAX_COUNT for size in space.sizes)
        and (space.kind != "discrete" or space.shape == ())
        and len(space.low) == len(space.high) in (0, count)
        and not any(map(math.isnan, (*space.low, *space.high)))
    )
    _require(sound, f"it makes no sense: the space of {name} has other numbers than a {space.kind}")
