"""Policies of a world that learn nothing, as `--opponent` names them: POLICY=WHO.

WHO is `random`, a script that `--import` registers, or the policy of a run as RUN[@CHECKPOINT].
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from farflung.common.data.selfplay import RANDOM_ACTIONS
from farflung.common.process.config import require
from farflung.common.process.errors import ConfigurationError

if TYPE_CHECKING:
    from farflung.learner.config import LearnerConfig

FORM = "write POLICY=WHO: random, a registered script, or RUN[@CHECKPOINT]"


def parse(words: tuple[str, ...]) -> dict[str, str]:
    """Return the text of each policy that learns nothing."""
    found: dict[str, str] = {}
    for word in words:
        policy, _, who = (part.strip() for part in word.partition("="))
        require(bool(policy and who), f"--opponent {word!r}: {FORM}")
        require(policy not in found, f"--opponent names {policy} twice")
        found[policy] = who
    return found


def scripts(config: "LearnerConfig") -> dict[str, str]:
    """Return the scripts that play policies, by policy."""
    return {policy: who for policy, who in parse(config.opponent).items() if _is_script(who)}


def frozen(config: "LearnerConfig") -> dict[str, str]:
    """Return the runs from which policies are taken as they are, by policy."""
    return {policy: who for policy, who in parse(config.opponent).items() if not _is_script(who)}


def require_known(config: "LearnerConfig", seats: Mapping[str, object]) -> None:
    """Refuse opponents that are no policies, or all of them, or neither script nor run."""
    from farflung.actor.scripts import SCRIPTS
    from farflung.learner.policies.named import checkpoint_of
    from farflung.learner.runs.reading import is_run

    named = parse(config.opponent)
    for policy in named:
        if policy not in seats:
            raise ConfigurationError(
                f"--opponent {policy}: --policies names no such policy, but {', '.join(seats)}"
            )
    if len(named) == len(seats):
        raise ConfigurationError("--opponent names all policies: one at least must learn")
    for policy, who in frozen(config).items():
        if not is_run(checkpoint_of(Path(who))[0]):
            have = ", ".join(sorted(SCRIPTS)) or "none"
            raise ConfigurationError(
                f"--opponent {policy}={who}: there is no run {who}, and no such script (those "
                f"registered here are: {have}; --import PACKAGE registers yours)"
            )


def _is_script(who: str) -> bool:
    from farflung.actor.scripts import SCRIPTS

    return who == RANDOM_ACTIONS or who in SCRIPTS
