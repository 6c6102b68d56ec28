"""Play: a world, a player for each of its policies, and their scores. No sockets, no clock."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Protocol

import numpy as np

from farflung.actor.acting.memory import FrameMemory
from farflung.actor.acting.policy import Policy
from farflung.actor.recording import Columns, Recorder
from farflung.actor.rounds import Share
from farflung.actor.scores import Scores
from farflung.actor.worlds.world import Due, Outcomes, Turn, World
from farflung.common import heads
from farflung.common.data import seeds
from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import Spec
from farflung.common.data.weights import Version, Weights
from farflung.common.heads import Choice, Chooser


class Playing(Protocol):
    """A policy at an actor: a Player, which records windows, or an Evaluator."""

    full: bool  # the window or the evaluation is over; so it is before the first one

    def wants(self, weights: Weights) -> bool:
        """Return whether there is something to play under these weights."""

    def begin(self, weights: Weights, steps: int) -> None:
        """Start a window or an evaluation."""

    def act(self, due: Due) -> np.ndarray:
        """Return actions [n, *shape] for the due seats."""

    def record(self, outcomes: Outcomes | None, due: Due | None) -> None:
        """Take in what became of seats, and what is due now."""

    def parcels(self) -> list[Parcel]:
        """Return what was played since `begin`."""


class Play:
    """Turns of a world, in which each policy has a player."""

    def __init__(self, world: World, players: Mapping[str, Playing]) -> None:
        self.world, self.players = world, players
        self._players = tuple(players.items())
        self.full = False  # a player has finished
        self._turn = Turn({}, {})

    def reset(self) -> None:
        """Begin an episode everywhere."""
        self._turn = turn = self.world.reset()
        for policy, player in self._players:
            player.record(None, turn.due.get(policy))

    def begin(self, weights: Weights, steps: int) -> bool:
        """Let each player that has finished begin again; return whether all can go on."""
        for player in self.players.values():
            if player.full:
                if not player.wants(weights):
                    return False
                player.begin(weights, steps)
        self.full = False
        return True

    def step(self) -> int:
        """Let each policy act for its due seats and record what follows; return their number."""
        players, actions, count = self.players, {}, 0
        for policy, due in self._turn.due.items():
            actions[policy] = chosen = players[policy].act(due)
            count += len(chosen)
        self._turn = turn = self.world.step(actions)
        seen, outcomes = turn
        for policy, player in self._players:
            player.record(outcomes.get(policy), seen.get(policy))
            if player.full:
                self.full = True
        return count


class ActingPolicy(Protocol):
    """An acting graph at work, or a stand-in."""

    def load(self, weights: Weights) -> None:
        """Answer by these weights from now on."""

    def answer(self, inputs: Columns) -> Sequence[np.ndarray]:
        """Return outputs [n, *shape] for observations by column.

        These are [n, *shape], or [n, stack, *shape]. For all seats they are the same arrays in each
        call.
        """


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
    ) -> None:
        self.version: Version | None = None  # of the window
        self._spec, self._policy, self._chooser = spec, policy, chooser
        self._horizon = spec.horizon
        self._stack = spec.stack
        self._plain = spec.stack == 1 and not spec.infos  # the policy sees just what is due
        self._noted = bool(spec.row_extras)  # decisions have extra columns
        self._outputs = heads.further_outputs(spec) if self._noted else {}
        per_observation = [column for column in spec.columns if column.per == "observation"]
        answered = [column.name for column in per_observation if column.name in self._outputs]
        self._answered = {name: self._outputs[name] for name in answered}
        seen = [column for column in per_observation if column.name not in answered]
        self._memory = FrameMemory(seen, seats, spec.stack)
        self._recorder = Recorder(spec.columns, seats, spec.horizon, spec.stack, answered)
        self._scores = scores or Scores(seats)
        self._share = Share(spec.rounds, index)
        self._due: Due | None = None
        self.full = True  # the window is over: a seat has all its steps, or there is no window

    def wants(self, weights: Weights) -> bool:
        """Return whether there is a window to play: in the sync mode, a round has so many."""
        return self._share.wants(weights.version)

    def begin(self, weights: Weights, steps: int) -> None:
        """Start a window on these weights; exploration follows the steps the learner counted."""
        if weights.version != self.version:
            self._policy.load(weights)
            self.version = weights.version
        self.full = False
        self._share.begin(weights.version)
        # In rounds exploration follows the version: a beacon's steps depend on when it came.
        steps = weights.steps if self._spec.rounds else steps
        exploration = self._spec.exploration
        self._chooser.begin(self._horizon, exploration.progress(steps, weights.version.number))
        self._recorder.begin(self._due, self._memory)

    def act(self, due: Due, chooser: Chooser | None = None) -> np.ndarray:
        """Return actions [n, *shape] for the due seats, by another chooser if one is given."""
        if self.full:
            raise ValueError("a window needs weights: call begin() first")
        recorder = self._recorder
        outputs = self._policy.answer(due.columns if self._plain else self._inputs(due))
        at = recorder.steps if recorder.aligned else recorder.at(due.seats)
        choice = (chooser or self._chooser).choose(at, outputs)
        if self._noted:
            recorder.note(self._extras(choice, outputs, due), at)
        actions = choice.actions
        if recorder.aligned:
            recorder.actions[at] = actions
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
        parcels = [_merged(list(group)) for _, group in groupby(played, lambda p: p.version)]
        spec = self._spec
        if parcels:
            parcels[-1] = replace(parcels[-1], results=self._scores.take(spec.metrics))
        cuts = (parcel.parts(spec.most_rows, spec.columns, spec.stack) for parcel in parcels)
        parts = [part for cut in cuts for part in cut]
        return parts if spec.rounds is None else self._share.placed(parts)

    def _inputs(self, due: Due) -> Columns:
        """Return the inputs of the graph: the observations, without the world's extra columns."""
        stacks = self._memory.stacks(due)
        return {column.name: stacks[column.name] for column in self._spec.observations}

    def _extras(self, choice: Choice, outputs: Sequence[np.ndarray], due: Due) -> Columns:
        """Return all extra columns that are known with a decision."""
        answered = {name: outputs[place] for name, place in self._outputs.items()}
        return {**due.columns, **answered, **choice.columns}

    def _whole(self, parcel: Parcel) -> Parcel:
        """Fill in the columns that the graph computes per observation, where no decision was made.

        At a trajectory's last frame it is asked once more, by the weights of this window. Frames
        before its first decision repeat the value there.
        """
        if not self._answered:
            return parcel
        stack, columns = self._stack, parcel.columns
        finals = np.cumsum(parcel.lengths + stack) - 1
        newest = finals if stack == 1 else finals[:, None] + np.arange(1 - stack, 1)
        outputs = self._policy.answer(
            {column.name: columns[column.name][newest] for column in self._spec.observations}
        )
        decided = finals - parcel.lengths
        for name, place in self._answered.items():
            columns[name][finals] = outputs[place]
            for before in range(1, stack):
                columns[name][decided - before] = columns[name][decided]
        return parcel


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
    rng = seeds.generator(spec.world.seed, "explore", index, start)
    chooser = heads.find(spec.head).explorer(spec, seats, index, rng)
    return Player(spec, seats, policy or Policy(spec.graph), chooser, scores, index)


def _merged(parcels: list[Parcel]) -> Parcel:
    """Return parcels of one version as one."""
    if len(parcels) == 1:
        return parcels[0]
    columns = {
        name: np.concatenate([parcel.columns[name] for parcel in parcels])
        for name in parcels[0].columns
    }
    lengths = np.concatenate([parcel.lengths for parcel in parcels])
    endings = np.concatenate([parcel.endings for parcel in parcels])
    return Parcel(parcels[0].version, lengths, endings, columns)
