"""V-trace (Espeholt et al., 2018): values and advantages from steps of an older policy."""

from typing import NamedTuple

import torch
from torch import Tensor


class VTrace(NamedTuple):
    """Targets of the values, and the advantages of the policy gradient; both [R]."""

    values: Tensor  # v(s)
    advantages: Tensor  # rho(s) (r(s) + gamma v(s + 1) - V(s))


def vtrace(
    log_ratios: Tensor,  # [R] log of pi(a | x) / mu(a | x), trajectories one after the other
    rewards: Tensor,  # [R]
    discounts: Tensor,  # [R] gamma, and 0 where the episode terminated
    values: Tensor,  # [R] V of the observations before the steps
    next_values: Tensor,  # [R] V of the observations after them
    continues: Tensor,  # [R] bool: the next row is the next step of the same trajectory
    *,
    longest: int,  # steps of the longest trajectory that there may be
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
    trace_lambda: float = 1.0,
) -> VTrace:
    """Return the targets and advantages of all steps.

    v(s) = V(s) + delta(s) + gamma c(s) (v(s + 1) - V(s + 1)), where
    delta(s) = rho(s) (r(s) + gamma V(s + 1) - V(s)). The last step of a trajectory has
    v(s + 1) = V(s + 1), the value of its bootstrap observation.
    """
    ratios = log_ratios.exp()
    rhos, cs = ratios.clamp(max=rho_bar), trace_lambda * ratios.clamp(max=c_bar)
    deltas = rhos * (rewards + discounts * next_values - values)
    targets = values + backward_sums(deltas, torch.where(continues, discounts * cs, 0), longest)
    next_targets = torch.where(continues, targets.roll(-1), next_values)
    return VTrace(targets, rhos * (rewards + discounts * next_targets - values))


def backward_sums(terms: Tensor, factors: Tensor, longest: int) -> Tensor:  # both [R]
    """Return x(t) = term(t) + factor(t) x(t + 1), [R]; a trajectory's last factor is 0.

    After each pass a row has the terms of twice as many steps.
    """
    span = 1
    while span < longest and span < len(terms):
        later = torch.nn.functional.pad(terms[span:], (0, span))
        terms = terms + factors * later
        factors = factors * torch.nn.functional.pad(factors[span:], (0, span))
        span *= 2
    return terms
