"""The schedule of faults: a Poisson process from a seed, so that it can be repeated."""

import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

ROLES = ("learner", "broker", "actor", "relayed actor")
KILLS = {"learner": 0.3, "broker": 0.25, "actor": 0.25, "relayed actor": 0.2}  # shares
OTHERS = {signal.SIGSTOP: 0.12, signal.SIGTERM: 0.1}  # for each kill
LONGEST_STOP_S = 12.0  # over the 8 s after which an actor makes a new connection


@dataclass(frozen=True, slots=True)
class Fault:
    """A signal to one process of a role."""

    at_s: float  # since the beginning
    role: str
    which: float  # of the processes in this role: 0 the first, below 1 the last
    signal: signal.Signals
    hold_s: float = 0.0  # until SIGCONT, after SIGSTOP


def schedule(
    seed: int, kills: int, mean_s: float, roles: Mapping[str, float] = KILLS
) -> list[Fault]:
    """Return so many kills with the other faults; two are `mean_s` apart on average."""
    random = np.random.default_rng(seed)
    kinds = [signal.SIGKILL, *OTHERS]
    weights = np.array([1.0, *OTHERS.values()])
    at_s, faults = 0.0, []
    while sum(fault.signal == signal.SIGKILL for fault in faults) < kills:
        at_s += random.exponential(mean_s)
        kind = kinds[random.choice(len(kinds), p=weights / weights.sum())]
        role = list(roles)[random.choice(len(roles), p=list(roles.values()))]
        hold_s = random.uniform(0.2, LONGEST_STOP_S) if kind == signal.SIGSTOP else 0.0
        faults.append(Fault(at_s, role, random.random(), kind, hold_s))
    return faults


def orders(roles: Sequence[str]) -> Counter[str]:
    """Count how often one role was killed right after another."""
    return Counter(f"{one}, then {other}" for one, other in pairwise(roles))
