"""The agents that each policy plays, as `--policies` names them."""

from collections.abc import Mapping, Sequence

from farflung.common.data.fields import DEFAULT_POLICY, NAME, RULE
from farflung.common.process.config import require, suggestion

AUTO = "auto"  # a policy for each agent, which has its name
REST = "*"  # all agents that no other policy plays
FORM = "write auto, or policies with their agents: 'red=agent_0,agent_1; blue=*'"

Seats = Mapping[str, tuple[str, ...]]  # the agents of each policy


def seats(text: str, agents: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the agents of each policy, or refuse a text that does not name each agent once."""
    from farflung.actor.acting.spec_check import MAX_AGENTS, MAX_POLICIES  # it imports numpy

    named: dict[str, tuple[str, ...]]
    if text.strip() == AUTO:
        named = {agent: (agent,) for agent in agents}
    else:
        named = _complete(read(text), agents)
    for what, count, most in (
        ("policies", len(named), MAX_POLICIES),
        ("agents", len(agents), MAX_AGENTS),
    ):
        require(count <= most, f"--policies: {count:,} {what}, and an actor takes {most:,}")
    for policy in named:
        _require_name(policy)
    return named


def read(text: str) -> dict[str, tuple[str, ...]]:
    """Return the words of a text: policies, each with names of agents or `*`."""
    found: dict[str, tuple[str, ...]] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        policy, equals, words = part.partition("=")
        policy = policy.strip()
        named = tuple(filter(None, (word.strip() for word in words.split(","))))
        require(bool(equals and policy and named), f"--policies: {part!r} is no policy: {FORM}")
        require(policy not in found, f"--policies names {policy} twice: put its agents together")
        found[policy] = named
    require(bool(found), f"--policies {text!r} names no policy: {FORM}")
    return found


def _complete(found: Seats, agents: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the agents of each policy in their own order, those of `*` filled in."""
    player: dict[str, str] = {}  # of each agent
    rest = [policy for policy, named in found.items() if REST in named]
    require(len(rest) < 2, f"--policies: {REST} is all other agents, and stands once")
    for policy, named in found.items():
        for agent in named:
            if agent != REST:
                _note(player, agent, policy, agents)
    left = [agent for agent in agents if agent not in player]
    if rest:
        require(bool(left) or len(found[rest[0]]) > 1, f"--policies: no agent is left for {REST}")
        player |= dict.fromkeys(left, rest[0])
    else:
        require(not left, f"--policies: no policy plays {', '.join(left)}; {REST} is all others")
    return {policy: tuple(agent for agent in agents if player[agent] == policy) for policy in found}


def _note(player: dict[str, str], agent: str, policy: str, agents: Sequence[str]) -> None:
    require(
        agent in agents,
        f"--policies: there is no agent {agent}, but {', '.join(agents)}."
        f"{suggestion(agent, agents)}",
    )
    require(
        agent not in player,
        f"--policies: {agent} is named twice, for {player.get(agent)} and for {policy}",
    )
    player[agent] = policy


def _require_name(policy: str) -> None:
    require(NAME.fullmatch(policy) is not None, f"--policies: {policy!r} is no name: {RULE}")
    require(
        policy != DEFAULT_POLICY,
        f"--policies: {DEFAULT_POLICY} is the policy of a learner alone: choose another name",
    )
