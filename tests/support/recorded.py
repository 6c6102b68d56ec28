"""Wrappers around PettingZoo's environments that write down every own step of every agent.

They count by the API's words alone: what an agent saw, what it did, the sum of `rewards` until it
sees something next. None of the code under test takes part.
"""

import copy
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pettingzoo.utils import BaseParallelWrapper, BaseWrapper

from farflung.common.data.parcel import Ending, Parcel
from farflung.common.protocol.parcels import ParcelCodec
from farflung.learner.storage import policies
from farflung.learner.storage.journal import payloads, segments
from farflung.learner.storage.journal.record import Kind, Record

MASK = "info.action_mask"


class OwnStep(NamedTuple):
    """One step of one agent, as bytes that can be compared."""

    seen: bytes
    action: bytes
    reward: float
    ending: int
    after: bytes


@dataclass
class _Pending:
    seen: Any
    action: Any
    reward: float = 0.0


@dataclass
class Ledger:
    """The complete steps of all agents of one environment."""

    steps: list[OwnStep] = field(default_factory=list)
    pending: dict[str, _Pending] = field(default_factory=dict)
    dropped: int = 0  # steps that never had an outcome

    def acted(self, agent: str, seen: Any, action: Any) -> None:
        """Note a decision."""
        assert agent not in self.pending
        self.pending[agent] = _Pending(copy.deepcopy(seen), copy.deepcopy(action))

    def paid(self, rewards: dict[str, float]) -> None:
        """Add rewards to the steps that wait for their outcome."""
        for agent, reward in rewards.items():
            if agent in self.pending:
                self.pending[agent].reward += float(reward)

    def sees(self, agent: str, after: Any, ending: Ending = Ending.OPEN) -> None:
        """Complete the step of an agent that sees something next."""
        if (step := self.pending.pop(agent, None)) is not None:
            action = np.asarray(step.action)
            action = action.astype(np.float32 if action.dtype.kind == "f" else np.int64)
            self.steps.append(
                OwnStep(
                    key(step.seen),
                    action.tobytes(),
                    float(np.float32(step.reward)),
                    ending,
                    key(after),
                )
            )

    def begins(self) -> None:
        """Drop what an episode left without an outcome."""
        self.dropped += len(self.pending)
        self.pending.clear()


def key(observation: Any) -> bytes:
    """Return an observation as bytes: floats of 32 bits, then the mask, if there is one."""
    if isinstance(observation, dict):
        mask = np.asarray(observation["action_mask"]) != 0
        return key(observation["observation"]) + mask.tobytes()
    return np.asarray(observation).astype(np.float32).tobytes()


def ending_of(terminated: Any, truncated: Any) -> Ending:
    """Return the ending of an agent's episode."""
    return Ending.TERMINATED if terminated else Ending.TRUNCATED if truncated else Ending.OPEN


class RecordedTurns(BaseWrapper):
    """A turn-based environment with a ledger."""

    def __init__(self, env: Any, ledger: Ledger) -> None:
        super().__init__(env)
        self.ledger = ledger

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        """Begin an episode."""
        self.env.reset(seed=seed, options=options)
        self.ledger.begins()

    def step(self, action: Any) -> None:
        """Write down the step of the agent that has its turn."""
        agent, ledger = self.env.agent_selection, self.ledger
        if self.env.terminations[agent] or self.env.truncations[agent]:
            self.env.step(action)
        else:
            ledger.acted(agent, self.env.observe(agent), action)
            self.env.step(action)
            ledger.paid(self.env.rewards)
        if self.env.agents:  # the step of the agent that has the next turn is complete
            agent = self.env.agent_selection
            ending = ending_of(self.env.terminations[agent], self.env.truncations[agent])
            self.ledger.sees(agent, self.env.observe(agent), ending)


class RecordedParallel(BaseParallelWrapper):
    """An environment in which all act at once, with a ledger."""

    def __init__(self, env: Any, ledger: Ledger) -> None:
        super().__init__(env)
        self.ledger = ledger
        self._seen: dict[str, Any] = {}

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        """Begin an episode."""
        observations, infos = self.env.reset(seed=seed, options=options)
        self.ledger.begins()
        self._seen = copy.deepcopy(observations)
        return observations, infos

    def step(self, actions: dict[str, Any]) -> Any:
        """Write down the steps of all that act."""
        for agent, action in actions.items():
            self.ledger.acted(agent, self._seen[agent], action)
        told = observations, rewards, terminated, truncated, _ = self.env.step(actions)
        self.ledger.paid(rewards)
        for agent, observation in observations.items():
            ending = ending_of(terminated.get(agent), truncated.get(agent))
            self.ledger.sees(agent, observation, ending)
        self._seen.update(copy.deepcopy(observations))
        return told


def digest(step: OwnStep) -> str:
    """Return a step in a line."""
    text = repr((step.reward, int(step.ending))).encode()
    parts = b"|".join((step.seen, step.action, text, step.after))
    return hashlib.blake2b(parts, digest_size=16).hexdigest()


def journal(run: Path) -> Iterator[Parcel]:
    """Yield all parcels in the journal of a run."""
    codec = ParcelCodec(policies.read_spec(run))
    for _, found in segments.read(run / segments.FOLDER):
        if isinstance(found, Record) and found.kind is Kind.MESSAGE:
            envelope, opened = payloads.open_message(found.payload)
            yield codec.decode(opened, envelope)


def own_steps(parcels: Iterable[Parcel], stack: int = 1) -> Counter[OwnStep]:
    """Return all steps of parcels, each with what its seat saw next."""
    found: Counter[OwnStep] = Counter()
    for parcel in parcels:
        observations = parcel.columns["observations"].astype(np.float32)
        masks = parcel.columns.get(MASK)
        step = frame = 0
        for length, ending in zip(parcel.lengths.tolist(), parcel.endings.tolist(), strict=True):
            frame += stack - 1
            for own in range(length):
                seen = [observations[frame + at].tobytes() for at in (own, own + 1)]
                if masks is not None:
                    seen = [one + masks[frame + own + at].tobytes() for at, one in enumerate(seen)]
                last = own == length - 1
                found[
                    OwnStep(
                        seen[0],
                        parcel.columns["actions"][step + own].tobytes(),
                        float(parcel.columns["rewards"][step + own]),
                        ending if last else Ending.OPEN,
                        seen[1],
                    )
                ] += 1
            step += length
            frame += length + 1
    return found
