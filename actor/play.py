"""Play: a world, a player for each of its policies, and their scores. No sockets, no clock."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np

from farflung.actor.acting.memory import SeatMemory
from farflung.actor.acting.noisy import NoisyPolicy, exploring_policy
from farflung.actor.acting.policy import ActingPolicy, Policy
from farflung.actor.playing import Acts, Playing, Unrecorded
from farflung.actor.recording import Columns, Recorder, merged
from farflung.actor.rounds import Share
from farflung.actor.scores import Scores
from farflung.actor.times import Part, Times
from farflung.actor.worlds.world import Due, Outcomes, Turn, World
from farflung.common import heads
from farflung.common.data import seeds
from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import ACTION_MASK, Spec
from farflung.common.data.states import next_columns, next_name, next_places, states
from farflung.common.data.weights import Version, Weights
from farflung.common.heads import Choice, Chooser, masks


class Source(Protocol):
    """The newest that the learner of a policy sent."""

    @property
    def weights(self) -> Weights | None:
        """The weights to play by."""

    @property
    def steps(self) -> int:
        """The steps that it has counted in the whole run."""


class Fixed(NamedTuple):
    """A source that stays the same."""

    weights: Weights
    steps: int


class Play:
    """Turns of a world, in which each policy has a player. Their windows end independently."""

    def __init__(
        self,
        world: World,
        players: Mapping[str, Playing],
        others: Mapping[str, Unrecorded] = MappingProxyType({}),
    ) -> None:
        """Make turns of players; beside them others act, which learn nothing."""
        self.world, self.players = world, players
        self._players, self._others = tuple(players.items()), tuple(others.items())
        self.acting: Mapping[str, Acts] = {**players, **others}
        self.full = False  # a player has finished
        self._turn = Turn({}, {})

    def reset(self) -> None:
        """Begin an episode everywhere."""
        self._turn = turn = self.world.reset()
        for policy, player in self._players:
            player.record(None, turn.due.get(policy))
        for policy, other in self._others:
            other.restart()
            other.record(None, turn.due.get(policy))

    def begin(self, weights: Weights, steps: int) -> bool:
        """Let each player that has finished begin again on the same weights, if all can go on."""
        return self.begin_each(dict.fromkeys(self.players, Fixed(weights, steps)))

    def begin_each(self, sources: Mapping[str, Source], away: Collection[str] = ()) -> bool:
        """Let each player that has finished begin again; return whether all can go on.

        If one cannot, none begins: it may have newer weights when it really does. Policies that are
        away begin in any case. While others have part of a round to play, one that has played its
        own goes on with spare windows: if it waited for its learner, two actors could wait for each
        other.
        """
        beginning = [(policy, player) for policy, player in self._players if player.full]
        goes_on = any(player.owes for player in self.players.values())
        for policy, player in beginning:
            weights = sources[policy].weights
            if weights is None or not (goes_on or player.wants(weights) or policy in away):
                return False
        for policy, player in beginning:
            source = sources[policy]
            assert source.weights is not None
            player.begin(source.weights, source.steps, goes_on and not player.owes)
        self.full = False
        return True

    @property
    def spare(self) -> list[str]:
        """The policies in spare windows, once no policy has part of a round to play."""
        if any(player.owes for player in self.players.values()):
            return []
        return [
            policy for policy, player in self._players if player.owes is False and not player.full
        ]

    def step(self, times: Times | None = None) -> int:
        """Let each policy act for its due seats and record what follows; return their number.

        Those of policies that learn nothing do not count. `times` has begun to time this step.
        """
        players, acting, actions, count = self.players, self.acting, {}, 0
        for policy, due in self._turn.due.items():
            actions[policy] = chosen = acting[policy].act(due)
            if policy in players:
                count += len(chosen)
        if times is not None:
            times.lap(Part.INFERENCE)
        self._turn = turn = self.world.step(actions)
        if times is not None:
            times.lap(Part.ENVIRONMENT)
        seen, outcomes = turn
        for policy, player in self._players:
            player.record(outcomes.get(policy), seen.get(policy))
            if player.full:
                self.full = True
        for policy, other in self._others:
            other.record(outcomes.get(policy), seen.get(policy))
        if times is not None:
            times.lap(Part.RECORDING)
        return count


class Player:
    """Plays windows of `horizon` steps, each under one version of the weights."""

    def __init__(
        self,
        spec: Spec,
        seats: int,
        policy: ActingPolicy,
        chooser: Chooser,
        scores: Scores | None = None,
        index: int = 0,
        start: int = 0,
    ) -> None:
        self.version: Version | None = None  # of the window
        self._weights: Weights | None = None
        self._spec, self._policy, self._chooser = spec, policy, chooser
        self._horizon, self._stack = spec.horizon, spec.stack
        self._masked = bool(spec.infos) and heads.masked(spec)
        self._noted = bool(spec.row_extras)  # decisions have extra columns
        self._outputs = heads.further_outputs(spec) if self._noted else {}
        per_observation = [column for column in spec.columns if column.per == "observation"]
        answered = [column.name for column in per_observation if column.name in self._outputs]
        self._answered = {name: self._outputs[name] for name in answered}
        seen = [column for column in per_observation if column.name not in answered]
        self._memory = SeatMemory(spec, seats, seen, (index, start))
        self._states, self._remembers = states(spec.graph), self._memory.records
        self._plain = not (spec.stack > 1 or spec.infos or self._states)  # it sees just what is due
        after = next_columns(spec.graph) if answered else ()
        self._outputs |= next_places(spec.graph) if after else {}
        recorded = *spec.columns, *after
        self._recorder = Recorder(recorded, seats, spec.horizon, spec.stack, answered)
        self._scores = scores or Scores(seats)
        self._share = Share(spec.rounds, index)
        self._due: Due | None = None
        self.full = True  # the window is over: a seat has all its steps, or there is no window

    def wants(self, weights: Weights) -> bool:
        """Return whether there is a window to play: in the sync mode, a round has so many."""
        return self._share.wants(weights.version)

    @property
    def owes(self) -> bool | None:
        """True while part of a round is to be played that ends for all policies; None: never."""
        return self._share.owes

    def begin(self, weights: Weights, steps: int, spare: bool = False) -> None:
        """Start a window on these weights; a spare one, on those before: newer may come."""
        self._weights = weights = self._weights if spare and self._weights else weights
        if weights.version != self.version or isinstance(self._policy, NoisyPolicy):
            self._policy.load(weights)
            self.version = weights.version
        self.full = False
        self._share.begin(weights.version, spare)
        # Exploration follows the steps that the learner counted. In rounds it follows the version:
        # a beacon's steps depend on when it came.
        steps = weights.steps if self._spec.rounds else steps
        exploration = self._spec.exploration
        self._chooser.begin(self._horizon, exploration.progress(steps, weights.version.number))
        self._recorder.begin(self._due, self._memory)

    def act(self, due: Due, chooser: Chooser | None = None) -> np.ndarray:
        """Return actions [n, *shape] for the due seats, by another chooser if one is given."""
        if self.full:
            raise ValueError("a window needs weights: call begin() first")
        recorder = self._recorder
        outputs = self._policy.answer(due.columns if self._plain else self._memory.inputs(due))
        at = recorder.steps if recorder.aligned else recorder.at(due.seats)
        chooser = chooser or self._chooser
        if self._masked:
            mask, environment = due.columns[ACTION_MASK], self._spec.world.environment
            choice = masks.choose(chooser, at, outputs, mask, environment)
        else:
            choice = chooser.choose(at, outputs)
        if self._noted:
            recorder.note(self._extras(choice, outputs, due), at)
        if self._remembers:
            self._memory.keep(outputs, due.seats)
        actions = choice.actions
        if recorder.aligned:
            recorder.actions[at], recorder.awaits = actions, True
        else:
            recorder.decide(actions, at)
        return actions

    def replace(self, action: np.ndarray, intervened: bool, seat: int = 0) -> None:
        """Write down the action [*shape] that a seat took instead of the chosen one."""
        self._recorder.replace(action, intervened, seat)

    def forget(self, seat: int = 0) -> None:
        """Let the next frame of a seat begin a stack."""
        self._memory.forget([seat])

    def record(self, outcomes: Outcomes | None, due: Due | None) -> None:
        """Write down what became of seats, and see what is due now."""
        recorder = self._recorder
        if outcomes is not None:
            recorder.settle(outcomes, due)
            self._scores.add(outcomes)
            if outcomes.ended or outcomes.lost:
                self._memory.forget([*outcomes.ended, *outcomes.lost])
            cut = self._share.is_over(len(outcomes.ended))
            self.full = self.full or recorder.steps == self._horizon or cut
        self._due = due
        if due is not None:
            if self._stack > 1:
                self._memory.see(due)
            recorder.see(due, self._memory)

    def parcels(self) -> list[Parcel]:
        """Return the window as far as it has come: one parcel per version, the oldest first.

        Older versions have those steps that were incomplete when their own window was over.
        """
        assert self.version is not None
        self.full = True
        window = self._recorder.parcels(self.version, self._memory)
        played = sorted((self._whole(p) for p in window if p.rows), key=lambda p: p.version)
        parcels = [merged(list(group)) for _, group in groupby(played, lambda p: p.version)]
        spec = self._spec
        if parcels:
            parcels[-1] = replace(parcels[-1], results=self._scores.take(spec.metrics))
        cuts = (parcel.parts(spec.most_rows, spec.columns, spec.stack) for parcel in parcels)
        parts = [part for cut in cuts for part in cut]
        return parts if spec.rounds is None else self._share.placed(parts)

    def _extras(self, choice: Choice, outputs: Sequence[np.ndarray], due: Due) -> Columns:
        """Return all extra columns that are known with a decision."""
        answered = {name: outputs[place] for name, place in self._outputs.items()}
        return {**due.columns, **answered, **choice.columns, **self._memory.columns(due.seats)}

    def _whole(self, parcel: Parcel) -> Parcel:
        """Fill in what the graph computes per observation, where no decision was made.

        Last frames are asked once more. Frames before the first decision repeat the value there.
        """
        if not self._answered:
            return parcel
        stack, columns = self._stack, dict(parcel.columns)
        finals = np.cumsum(parcel.lengths + stack) - 1
        newest = finals if stack == 1 else finals[:, None] + np.arange(1 - stack, 1)
        seen = {column.name: columns[column.name][newest] for column in self._spec.observations}
        after = {state.name: columns.pop(next_name(state.name)) for state in self._states}
        outputs = self._policy.answer(seen | after)
        decided = finals - parcel.lengths
        for name, place in self._answered.items():
            columns[name][finals] = outputs[place]
            for before in range(1, stack):
                columns[name][decided - before] = columns[name][decided]
        return replace(parcel, columns=columns)


def exploring(
    spec: Spec,
    seats: int,
    index: int,
    start: int,
    scores: Scores | None = None,
    policy: ActingPolicy | None = None,
) -> Player:
    """Return a player that explores, at its place in the seed tree."""
    heads.require(spec)
    own = spec.world.branch(spec.policy)
    rng = seeds.generator(spec.world.seed, "explore", *own, index, start)
    chooser = heads.find(spec.head).explorer(spec, seats, index, rng)
    policy = exploring_policy(policy or Policy(spec.graph), spec, (index, start))
    return Player(spec, seats, policy, chooser, scores, index, start)
