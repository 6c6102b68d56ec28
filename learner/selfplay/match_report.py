"""The words for a match: a table for people, a document for programs."""

from collections.abc import Mapping
from typing import Any

from farflung.common.data.statistics import Share, share
from farflung.learner.runs.table import aligned
from farflung.learner.selfplay.entrants import Entrant
from farflung.learner.selfplay.games import Games
from farflung.learner.selfplay.match import Played

OUTCOMES = "wins", "draws", "losses"
HEAD = ("seat", "games", *OUTCOMES, "score")


def text(found: Played) -> str:
    """Return who played, the counts by seat, and the shares with their intervals."""
    asked, games = found.asked, found.games
    one, other = found.sides
    how = "as trained" if asked.as_trained else "greedy"
    lines = [
        f"{found.world.environment}, {games.count:,} of {asked.games:,} games, {how}, "
        f"seed {asked.seed}",
        f"{_described(one)} against {_described(other)}",
    ]
    if games.count:
        rows = [HEAD, *(_row(seat, each) for seat, each in found.seats.items() if each.count)]
        rows.append(_row("all", games))
        shares = ", ".join(f"{name} {each}" for name, each in _shares(found).items())
        ending = shares if found.repeats else f"{shares}: 95 % intervals"
        lines += [aligned(rows, range(1, len(HEAD))).rstrip(), ending]
    if found.repeats:
        lines.append(
            "every game of a seat had the same moves, so more of them tell no more: --as-trained "
            "lets policies explore"
        )
    if found.cut:
        lines.append(f"{found.cut} of them were cut after {asked.max_steps:,} steps of a side")
    return "".join(f"{line}\n" for line in lines)


def document(found: Played) -> dict[str, Any]:
    """Return all figures as plain data. Shares without a meaning are null."""
    asked, games = found.asked, found.games
    shares = _shares(found) if games.count else {}
    return {
        "environment": found.world.environment,
        "one": _facts(found.sides[0]),
        "other": _facts(found.sides[1]),
        "as_trained": asked.as_trained,
        "seed": asked.seed,
        **_counts(games),
        "score": games.score / games.count if games.count else None,
        "intervals_95": {
            name: [each.low, each.high] if isinstance(each, Share) else None
            for name, each in shares.items()
        },
        "seats": {seat: _counts(each) for seat, each in found.seats.items()},
        "different": found.different,
        "max_steps": asked.max_steps,
        "cut": found.cut,
    }


def _shares(found: Played) -> Mapping[str, Share | str]:
    """Return the share of each outcome, with its interval unless all games are one."""
    counts = _counts(found.games)
    shares = {name: share(counts[name], counts["games"]) for name in OUTCOMES}
    return {name: f"{s.share:.3f}" for name, s in shares.items()} if found.repeats else shares


def _row(seat: str, games: Games) -> tuple[str, ...]:
    score = f"{games.score / games.count:.3f}"
    return seat, *(f"{count:,}" for count in _counts(games).values()), score


def _counts(games: Games) -> dict[str, int]:
    return {
        "games": int(games.count),
        "wins": int(games.wins),
        "draws": int(games.draws),
        "losses": int(games.losses),
    }


def _described(side: Entrant) -> str:
    if side.weights is None:
        return side.name
    return f"{side.name} (version {side.weights.version}, {side.weights.steps:,} steps)"


def _facts(side: Entrant) -> dict[str, Any]:
    if side.weights is None:
        return {"name": side.name}
    weights = side.weights
    return {
        "name": side.name,
        "version": str(weights.version),
        "steps": weights.steps,
        "updates": weights.updates,
    }
