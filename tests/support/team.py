"""A team in one process: red and blue in games of tic-tac-toe."""

import re
from types import SimpleNamespace

from farflung.common.process.config import Loaded
from farflung.common.process.lifecycle import Stop
from farflung.common.process.log import Who
from farflung.learner.observe.sinks import StatusSink
from farflung.learner.team import in_turns, opponents
from farflung.learner.team.folder import Folder
from farflung.learner.team.status import TeamStatus
from support.learners import a_config, shared_graphs

SEATS = {"red": ("player_0",), "blue": ("player_1",)}
HASHES = re.compile(r"parameters: (\w+)\nreplay: (\w+)")


class Team:
    """Red and blue in games of tic-tac-toe, in folders below one."""

    def __init__(self, folder):
        self.folder, self.statuses = folder, []

    def train(self, name="one", each=lambda statuses, stop: None, **changes):
        """Train to the end; return the code. `each` is called after each round."""
        config = a_config(
            environment="duel",
            policies="red=player_0; blue=player_1",
            durability="process",
            **{"steps": 200, "actors": 2} | changes,
        )
        fixed = opponents.parse(config.opponent)
        stop, folder = Stop(), Folder(self.folder / name)
        (folder.path / "logs").mkdir(parents=True, exist_ok=True)
        started = SimpleNamespace(who=Who("learner", name))

        def show(members):
            sink = StatusSink("statuses", self.statuses.append, 0.0)
            view = in_turns.View(members, TeamStatus("duel", "dqn", name), sink)
            look = view.look
            view.look = lambda: (look(), each(view._status(), stop))
            return view

        with shared_graphs():
            learned = {policy: SEATS[policy] for policy in SEATS if policy not in fixed}
            try:
                code = in_turns.train(Loaded(config, {}), learned, folder, started, stop, show)
            finally:
                stop.close()
        assert started.who.name == name
        return code

    def hashes(self, name="one"):
        """Return the newest hashes of each policy: of its parameters, and of its replay."""
        logs = self.folder / name / "logs"
        return {
            policy: HASHES.findall((logs / f"learner-{policy}.log").read_text())[-1]
            for policy in SEATS
            if (logs / f"learner-{policy}.log").exists()
        }

    def run(self, policy, name="one"):
        """Return the folder of a policy's run."""
        return self.folder / name / policy

    @property
    def last(self):
        """The last status."""
        return self.statuses[-1]

    def steps(self):
        """Return the steps of each policy."""
        return {policy: each.learner.steps for policy, each in self.last.policies.items()}
