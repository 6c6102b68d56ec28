"""The policies that play a world in an evaluation: of a run, of the other runs of its team, and of
the runs that `--opponent` named. Scripts play the rest, as they did in training.
"""

from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from farflung.common.data.spec import Spec, World
from farflung.common.data.weights import Weights
from farflung.common.process.config import read_settings
from farflung.common.process.errors import ConfigurationError
from farflung.learner.config import TEAM_SETTINGS
from farflung.learner.policies.loading import default_checkpoint
from farflung.learner.policies.named import checkpoint_of
from farflung.learner.storage import policies
from farflung.learner.storage.manifest import BEST
from farflung.learner.storage.run_folder import CONFIGURATION
from farflung.learner.team import opponents


@dataclass(frozen=True)
class Side:
    """The policy of a run, under the weights of one checkpoint."""

    folder: Path
    spec: Spec
    checkpoint: str
    weights: Weights
    learned: bool = True  # in this team; else `--opponent` took it from another run


def of_run(folder: Path, checkpoint: str) -> list[Side]:
    """Return the policy of a run, and those of its team, which play the other agents.

    They take the checkpoint too if it is `best` or `last`, else the one that each has by default.
    """
    own = _side(folder, checkpoint)
    shared = checkpoint if checkpoint in (BEST, policies.LAST) else ""
    others = [policy for policy in _acting(own.spec.world) if policy != own.spec.policy]
    return [own, *(_sibling(folder, own.spec.world, policy, shared) for policy in others)]


def of_team(folder: Path, checkpoint: str) -> list[Side]:
    """Return the policies in the folder of a team in the order of `--policies`, learned ones first.

    They are those that have weights.
    """
    runs = sorted(path.parent.parent for path in folder.glob("/".join(("*", *policies.SPEC))))
    if not runs:
        raise ConfigurationError(f"{folder} has no run with a policy yet")
    world = policies.read_spec(runs[0]).world
    sides = [_sibling(runs[0], world, policy, checkpoint) for policy in _acting(world)]
    return sorted(sides, key=lambda side: not side.learned)


def _acting(world: World) -> list[str]:
    """Return the policies of a world that act by weights, and not by a script."""
    return [policy for policy in world.seats if policy not in world.scripts]


def _sibling(folder: Path, world: World, policy: str, checkpoint: str) -> Side:
    """Return a policy of the same team as a run."""
    beside = folder.resolve().parent / policy
    if beside.joinpath(*policies.SPEC).exists():
        return _side(beside, checkpoint)
    if named := _opponents(folder).get(policy):
        return _frozen(world, policy, named)
    raise ConfigurationError(
        f"{folder} is one policy of several, and there is no run of {policy} beside it: name "
        f"the run of a team, which has {TEAM_SETTINGS} in the folder above"
    )


def _opponents(folder: Path) -> dict[str, str]:
    """Return what `--opponent` named for policies when this run, or its team, was trained."""
    words: list[str] = []
    for path in (folder.resolve().parent / TEAM_SETTINGS, folder / CONFIGURATION):
        if path.exists():
            words += read_settings("learner", path).get("opponent", [])
    return opponents.parse(tuple(dict.fromkeys(words)))


def _frozen(world: World, policy: str, named: str) -> Side:
    """Return the policy of another run, in the place of one of this world."""
    folder, checkpoint = checkpoint_of(Path(named))
    if not folder.joinpath(*policies.SPEC).exists():
        raise ConfigurationError(
            f"policy {policy} was that of {named}, which is not here: evaluate in the folder where "
            "the team was trained"
        )
    found = _side(folder, checkpoint)
    spec = structs.replace(found.spec, policy=policy, world=world)
    return Side(folder, spec, found.checkpoint, found.weights, learned=False)


def _side(folder: Path, checkpoint: str) -> Side:
    spec = policies.read_spec(folder)
    chosen = checkpoint or default_checkpoint(folder)
    return Side(folder, spec, chosen, policies.read_weights(folder, spec, chosen))
