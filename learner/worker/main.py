"""The `learner worker` command. Its settings are those of a role of its own, as an actor's are.

So `FARFLUNG_WORKER_ENVS` and the section `[worker]` of a file are for it, and for no learner.
"""

import sys
from typing import Annotated

from cyclopts import Parameter

from farflung.actor import main as actor
from farflung.common.process import config
from farflung.common.process.aliases import Aliases, file_words, translated
from farflung.learner.worker.config import WorkerConfig
from farflung.learner.worker.worker import Worker

ROLE, COMMAND = "worker", "learner worker"
ABOUT = (
    "Join a learner with --gradients: collect as an actor does, learn, and send gradients. "
    "All settings of the algorithm come from the learner."
)
EXAMPLES = {
    "learner worker gpu-box:5555 --envs 4": "collect from 4 environments, and learn",
    "learner worker gpu-box:5555 --import own --algorithm own:Algorithm": "with your own algorithm",
}
EVALUATIONS = "A worker collects: `actor ADDRESS --evaluate` plays evaluations."
IN_TURNS = "A worker learns between two windows: `actor --rate` keeps real time."
ALIASES = Aliases(
    actor.ALIASES.same,
    {
        **actor.ALIASES.other,
        "evaluate": EVALUATIONS,
        "rate": IN_TURNS,
        "without-learner": IN_TURNS,
        "acknowledged": "Gradients are not kept, so there is nothing to audit them against.",
    },
)
NO_OPTIONS = WorkerConfig()


def command(argv: list[str]) -> int:
    """Run the command line after `learner worker`; return the exit code."""
    argv, hints = translated(COMMAND, argv, ALIASES)
    sys.stderr.writelines(f"{hint}\n" for hint in hints)
    return config.run(
        ROLE,
        WorkerConfig,
        lambda loaded: work(loaded.config),
        argv,
        description=ABOUT,
        examples=EXAMPLES,
        words=file_words(COMMAND, ALIASES),
        called=COMMAND,
    )


def work(asked: Annotated[WorkerConfig, Parameter(name="*")] = NO_OPTIONS) -> int:
    """Work until the end, with a log; return the exit code."""
    return actor.take_part(asked, Worker(asked))
