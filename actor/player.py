"""One policy at an actor: it acts for the seats that must, and records what becomes of them."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Protocol

import numpy as np

from farflung.actor.acting.memory import FrameMemory
from farflung.actor.acting.policy import Policy
from farflung.actor.recording import Block, Recorder
from farflung.actor.scores import Scores
from farflung.actor.worlds.world import Due, Outcomes
from farflung.common import heads
from farflung.common.data import seeds
from farflung.common.data.parcel import Parcel, Results
from farflung.common.data.spec import Spec
from farflung.common.data.version import Version
from farflung.common.data.weights import Weights
from farflung.common.heads import Choice, Chooser

Columns = Mapping[str, np.ndarray]


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
    ) -> None:
        self.version: Version | None = None  # of the window
        self._spec, self._policy, self._chooser = spec, policy, chooser
        self._horizon = spec.horizon
        self._stack = spec.stack
        self._plain = spec.stack == 1 and not spec.infos  # the policy sees just what is due
        self._outputs = heads.further_outputs(spec) if spec.extras else {}
        per_observation = [column for column in spec.columns if column.per == "observation"]
        answered = [column.name for column in per_observation if column.name in self._outputs]
        self._answered = {name: self._outputs[name] for name in answered}
        seen = [column for column in per_observation if column.name not in answered]
        self._memory = FrameMemory(seen, seats, spec.stack)
        self._recorder = Recorder(spec.columns, seats, spec.horizon, spec.stack, answered)
        self._scores = scores or Scores(seats)
        self._due: Due | None = None
        self.full = True  # the window is over: a seat has all its steps, or there is no window

    def wants(self, weights: Weights) -> bool:
        """Return True: there is always another window to play."""
        return True

    def begin(self, weights: Weights, steps: int) -> None:
        """Start a window on these weights; exploration follows the steps the learner counted."""
        if weights.version != self.version:
            self._policy.load(weights)
            self.version = weights.version
        self.full = False
        self._chooser.begin(self._horizon, steps)
        self._recorder.begin(self._due, self._memory)

    def act(self, due: Due, chooser: Chooser | None = None) -> np.ndarray:
        """Return actions [n, *shape] for the due seats, by another chooser if one is given."""
        if self.full:
            raise ValueError("a window needs weights: call begin() first")
        recorder = self._recorder
        outputs = self._policy.answer(due.columns if self._plain else self._inputs(due))
        at = recorder.steps if recorder.aligned else recorder.at(due.seats)
        choice = (chooser or self._chooser).choose(at, outputs)
        if self._spec.extras:
            recorder.note(self._extras(choice, outputs, due), at)
        actions = choice.actions
        if recorder.aligned:
            recorder.actions[at] = actions
        else:
            recorder.decide(actions, at)
        return actions

    def record(self, outcomes: Outcomes | None, due: Due | None) -> None:
        """Write down what became of seats, and see what is due now."""
        recorder = self._recorder
        if outcomes is not None:
            recorder.settle(outcomes, due)
            self._scores.add(outcomes)
            if outcomes.ended or outcomes.lost:
                self._memory.forget([*outcomes.ended, *outcomes.lost])
            self.full = self.full or recorder.steps == self._horizon
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
        blocks = [self._whole(b) for b in self._recorder.blocks(self.version, self._memory)]
        blocks = sorted((b for b in blocks if len(b.lengths)), key=lambda b: b.version)
        made = [_merged(list(group)) for _, group in groupby(blocks, lambda b: b.version)]
        last = len(made) - 1
        return [
            Parcel(*block, self._scores.take() if number == last else Results())
            for number, block in enumerate(made)
        ]

    def _inputs(self, due: Due) -> Columns:
        """Return the inputs of the graph: the observations, without the world's extra columns."""
        stacks = self._memory.stacks(due)
        return {column.name: stacks[column.name] for column in self._spec.observations}

    def _extras(self, choice: Choice, outputs: Sequence[np.ndarray], due: Due) -> Columns:
        """Return all extra columns that are known with a decision."""
        answered = {name: outputs[place] for name, place in self._outputs.items()}
        return {**due.columns, **answered, **choice.columns}

    def _whole(self, block: Block) -> Block:
        """Fill in the columns that the graph computes per observation, where no decision was made.

        At a trajectory's last frame it is asked once more, by the weights of this window. Frames
        before its first decision repeat the value there.
        """
        if not self._answered or not len(block.lengths):
            return block
        stack, columns = self._stack, block.columns
        finals = np.cumsum(block.lengths + stack) - 1
        newest = finals if stack == 1 else finals[:, None] + np.arange(1 - stack, 1)
        outputs = self._policy.answer(
            {column.name: columns[column.name][newest] for column in self._spec.observations}
        )
        decided = finals - block.lengths
        for name, place in self._answered.items():
            columns[name][finals] = outputs[place]
            for before in range(1, stack):
                columns[name][decided - before] = columns[name][decided]
        return block


def exploring(
    spec: Spec, seats: int, index: int, start: int, scores: Scores | None = None
) -> Player:
    """Return a player that explores, at its place in the seed tree."""
    heads.require(spec)
    rng = seeds.generator(spec.world.seed, "explore", index, start)
    chooser = heads.find(spec.head).explorer(spec, seats, index, rng)
    return Player(spec, seats, Policy(spec.graph), chooser, scores)


def _merged(blocks: list[Block]) -> Block:
    """Return blocks of one version as one."""
    if len(blocks) == 1:
        return blocks[0]
    columns = {
        name: np.concatenate([block.columns[name] for block in blocks])
        for name in blocks[0].columns
    }
    lengths, endings = (np.concatenate([block[part] for block in blocks]) for part in (1, 2))
    return Block(blocks[0].version, lengths, endings, columns)
