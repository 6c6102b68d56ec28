"""The subcommands of `learner` about games against opponents. None of them imports torch."""

import json as json_format
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from farflung.common.data.spec import LONGEST_EPISODE
from farflung.common.process import lifecycle
from farflung.common.process.lifecycle import Stop
from farflung.learner.cli.at_work import at_work
from farflung.learner.cli.progress import Progress, problem


def standings(
    run: Path,
    /,
    *,
    json: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
) -> int:
    """Show a run's games: wins, draws and losses by opponent and seat, and Elo ratings.

    Reads the newest checkpoint, so a run that goes on has played a little more. Random actions have
    the rating 0, if they were played.

    Parameters
    ----------
    run
        The folder of the run.
    json
        Print all counts and ratings as one line of JSON.
    """
    from farflung.learner.selfplay import report

    found = report.read(run)
    if json:
        sys.stdout.write(json_format.dumps(report.document(found)) + "\n")
    else:
        sys.stdout.write(report.text(found))
    return 0


def match(
    one: str,
    other: str,
    /,
    *,
    games: int = 1000,
    as_trained: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    seed: int = 0,
    max_steps: int = LONGEST_EPISODE,
    json: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
) -> int:
    """Let two policies play games against each other: wins, draws and losses, with 95 % intervals.

    A side is RUN, RUN@CHECKPOINT, `random`, or a function as package.module:function, which takes
    an observation, the mask of legal actions and a generator. One of both is a run: it names the
    world, which has two agents. Each side has each seat in every second game.

    Parameters
    ----------
    one
        The side of which the wins are counted.
    other
        The side against it.
    games
        Games to play.
    as_trained
        Let policies explore as actors did under these weights, instead of the best action.
    seed
        Root of games and of exploration; another one has other games.
    max_steps
        Steps of a side after which a game is cut: policies may never end one.
    json
        Print all counts and intervals as one line of JSON.
    """
    with at_work("match", f"playing {one} against {other}"):
        from farflung.learner.selfplay import entrants, match_report
        from farflung.learner.selfplay.match import Asked, play

        asked = Asked(games=games, as_trained=as_trained, seed=seed, max_steps=max_steps)
        stop, progress = Stop(), Progress(games, "games")
        with lifecycle.signals(stop):
            sides = entrants.find(one), entrants.find(other)
            found = play(sides, asked, stop, problem, progress.show)
    if json:
        sys.stdout.write(json_format.dumps(match_report.document(found)) + "\n")
    else:
        sys.stdout.write(match_report.text(found))
    return stop.exit_code
