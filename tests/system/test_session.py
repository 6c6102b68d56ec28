"""Sessions against a real learner: the example of a simulator, and one that is interfered with."""

import importlib
import random
import re
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from support.keeping import KEPT, ROW
from support.waiting import run_to_end, took_at_most

from farflung.actor.session import ActorSession
from farflung.common.data.spec import ACTIONS, INTERVENED, OBSERVATIONS
from farflung.common.protocol.parcels import ParcelCodec
from farflung.learner.storage.journal import payloads, segments
from farflung.learner.storage.journal.record import Kind, Record

EXAMPLES = Path(__file__).parents[2] / "examples"
SUPPORT = Path(__file__).parents[1] / "support"
ELSEWHERE, ROBOT = SUPPORT / "elsewhere.py", SUPPORT / "robots.py"
FORMS = ("session", "threaded", "rate", "event_loop")

pytestmark = [pytest.mark.slow, pytest.mark.system]


def test_simulator_that_owns_its_loop_trains_a_learner(shell: Any) -> None:
    """It evaluates in own_world.py; all steps come from own_loop.py, which ends with the run."""
    goal = (
        "--until",
        "evaluation > 0 and steps >= 1000",
        "--evaluate-every",
        500,
        "--evaluate-episodes",
        4,
    )
    flags = (
        "--env",
        "CartOnLine-v0",
        "--import",
        "own_world",
        "--warmup",
        200,
        "--replay-ratio",
        2,
        *goal,
    )
    learner = shell.learner(*flags, PYTHONPATH=str(EXAMPLES)).listens()
    loop = shell.start(sys.executable, EXAMPLES / "own_loop.py", learner.address, "--hz", 0)
    assert loop.ended() == 0
    assert learner.ended() == 0
    steps = int(learner.says(r"(\d+) steps, \d+ updates, \d+ episodes, evaluation")[1])
    windows, rows = map(int, loop.says(r"the learner took (\d+) windows with (\d+) steps").groups())
    assert rows == 32 * windows
    assert 1000 <= steps <= rows  # what was taken is acknowledged before the run's end is told


def interfere(session: ActorSession) -> dict[int, tuple[int, bool]]:
    """Play until the run is over, with 3 of 10 actions replaced by a script.

    Return action and flag of each step. An observation begins with the number of its step, and an
    episode has 50 of them.
    """
    chance, truth = random.Random(1), {}
    while not session.over:
        step = len(truth)
        chosen = session.act([step, 0, 0, 0])
        intervened = chance.random() < 0.3
        taken = chance.randrange(2) if intervened else chosen  # the script may agree
        truth[step] = taken, intervened
        session.record(
            1.0, step % 50 == 49, False, [step + 1, 0, 0, 0], action=taken, intervened=intervened
        )
    return truth


def journaled(run: Path, spec: Any) -> list[tuple[tuple[float, ...], int, bool]]:
    """Return observation, action and flag of each step in a run's journal, in their order."""
    codec, found = ParcelCodec(spec), {}
    for _, record in segments.read(run / segments.FOLDER):
        assert isinstance(record, Record)
        if record.kind is not Kind.MESSAGE:
            continue
        envelope, opened = payloads.open_message(record.payload)
        assert envelope.sequence not in found
        found[envelope.sequence] = [
            (tuple(seen), action, flag)
            for one in codec.decode(opened, envelope).trajectories(spec.columns, spec.stack)
            for seen, action, flag in zip(
                one.columns[OBSERVATIONS][:-1].tolist(),
                one.columns[ACTIONS].tolist(),
                one.columns[INTERVENED.name].tolist(),
                strict=True,
            )
        ]
    return [step for sequence in sorted(found) for step in found[sequence]]


def test_interventions_are_exact_in_journal_and_replay(shell: Any) -> None:
    """3 of 10 actions are a script's: stored are those that were taken, with their flags."""
    kept, run = shell.folder / "kept", shell.folder / "runs" / "one"
    flags = ("--algorithm", "support.keeping:Keeping", "--interventions", "--keep-journal")
    pace = ("--warmup", 128, "--replay-ratio", 8, "--steps", 2000)
    found = {"PYTHONPATH": str(Path(__file__).parents[1]), KEPT: str(kept)}
    learner = shell.learner("--name", "one", *flags, *pace, **found).listens()
    address = learner.address
    with ActorSession(f"{address.host}:{address.port}", feed_port=address.feed_port) as session:
        truth = interfere(session)
        spec = session.spec
    assert learner.ended() == 0
    rows = journaled(run, spec)
    there = {int(seen[0]): (action, flag) for seen, action, flag in rows}
    assert len(there) == len(rows) == session.ledger.acknowledged.rows >= 2000
    assert there == {step: truth[step] for step in there}
    assert 0.25 < np.mean([flag for _, flag in there.values()]) < 0.35
    sampled = np.frombuffer(kept.read_bytes(), ROW)
    assert len(np.unique(sampled["step"])) > 1500
    for step, action, intervened in np.unique(sampled).tolist():
        assert (action, intervened) == truth[int(step)]
    require_clean(shell, run)


def require_clean(shell: Any, run: Path) -> None:
    """Let the audit go over a run."""
    audit = shell.start("learner", "audit", run)
    assert audit.ended() == 0
    assert "no problems" in audit.said


class Noting(ActorSession):
    """A session that notes what its caller did."""

    opened: ClassVar[list["Noting"]] = []

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.truth: list[tuple[tuple[float, ...], int, bool]] = []
        self.opened.append(self)

    def act(self, observation: Any, **how: Any) -> Any:
        """Note what is shown, and what the policy chooses."""
        self._seen = tuple(np.array(observation, np.float32).tolist())
        self._action = super().act(observation, **how)
        return self._action

    def record(self, *outcome: Any, action: Any = None, **more: Any) -> bool:
        """Note the action that was taken."""
        over = super().record(*outcome, action=action, **more)
        self.truth.append((self._seen, action, action != self._action))
        return over


def test_robot_at_50_hz_records_what_a_person_did(
    shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example keeps its pace; stored are the actions that were taken, with exact flags."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    own_loop = importlib.import_module("own_loop")
    monkeypatch.setattr(own_loop, "ActorSession", Noting)
    monkeypatch.setattr(own_loop, "CHANCE", 0.1)  # a short run: a person comes often
    monkeypatch.setattr("farflung.actor.realtime.pace.keep_pauses_short", lambda: None)
    flags = ("--env", "CartOnLine-v0", "--import", "own_world", "--interventions")
    pace = ("--warmup", 32, "--replay-ratio", 1, "--steps", 160, "--keep-journal")
    learner = shell.learner("--name", "one", *flags, *pace, PYTHONPATH=str(EXAMPLES)).listens()
    before = time.monotonic()
    own_loop.main(str(learner.address), 50.0)
    took_s = time.monotonic() - before
    assert learner.ended() == 0
    session = Noting.opened.pop()
    rows = journaled(shell.folder / "runs" / "one", session.spec)
    assert len(rows) == session.ledger.acknowledged.rows >= 160
    assert rows == session.truth[: len(rows)]
    assert {flag for _, _, flag in rows} == {False, True}
    assert len(session.truth) == session.timing["steps"] <= 50.0 * took_s + 1
    require_clean(shell, shell.folder / "runs" / "one")


def test_robot_plays_the_evaluations(shell: Any, habitats: Any) -> None:
    """The learner's own evaluator cannot: its world only declares the spaces."""
    flags = ("--env", "habitats/Declared-v0", "--import", "habitats", "--evaluate-every", 100)
    goal = ("--evaluate-episodes", 3, "--until", "evaluation >= 20 and updates >= 1")
    pace = ("--warmup", 64, "--replay-ratio", 1)
    learner = shell.learner(*flags, *goal, *pace, **habitats).listens()
    where = f"{learner.address.host}:{learner.address.port}"
    ports = {"feed_port": learner.address.feed_port, "patience_s": 0.05}
    seen, evaluations = [0.0, 0.0, 0.0, 0.0], 0
    with (
        ActorSession(where, **ports) as collecting,
        ActorSession(where, **ports, evaluate=True) as evaluating,
    ):
        while not collecting.over:
            collecting.act(seen)
            collecting.record(0.0, False, False, seen)
            if evaluating.begin_evaluation(0.0):
                evaluations += 1
                while evaluating.episodes_left():
                    evaluating.act(seen)
                    evaluating.record(10.0 * evaluations, True, False, seen)
    assert learner.ended() == 0, learner.said
    found = float(learner.says(r"\d+ updates, .*evaluation (\d+\.\d+)")[1])
    assert found in [10.0 * number for number in range(2, evaluations + 1)]


def test_actor_session_imports_neither_gymnasium_nor_torch() -> None:
    """A robot installs neither."""
    heavy = {"gymnasium", "torch", "onnx", "rich"}
    code = f"import farflung.actor.session, sys; print(sorted({heavy} & set(sys.modules)))"
    found = run_to_end([sys.executable, "-c", code])
    assert found.stdout.strip() == "[]"


def test_first_line_about_a_missing_learner_comes_within_a_second(
    shell: Any, free_address: Any
) -> None:
    """Then the learner is started, and the session joins it by itself."""
    address = f"{free_address.host}:{free_address.port}"
    robot = shell.start(sys.executable, ROBOT, "session", address, free_address.feed_port)
    came = robot.says(rf"(\d+\.\d+) s: no learner answers at {address} yet")
    assert took_at_most(float(came[1]), 1.0)
    learner = shell.learner("--warmup", 10_000, port=free_address.port).listens()
    assert robot.ended() == 0
    assert "acknowledged: 100 steps" in robot.said
    assert learner.running


def test_sessions_and_load_need_nothing_of_posix(shell: Any) -> None:
    """On macOS and Windows they run by construction: what those lack is taken away here."""
    goal = ("--warmup", 64, "--replay-ratio", 1, "--steps", 400)  # of each robot 100
    learner = shell.learner("--name", "one", *goal).listens()
    there = f"{learner.address.host}:{learner.address.port}", learner.address.feed_port
    robots = [shell.start(sys.executable, ELSEWHERE, ROBOT, form, *there) for form in FORMS]
    for robot in robots:
        assert robot.ended() == 0, robot.said
        assert "acknowledged: 100 steps" in robot.said
    assert learner.ended() == 0
    use = shell.folder / "use.py"
    use.write_text(
        "import farflung, sys\n"
        "print('action', farflung.load(sys.argv[1]).act([0.0, 0.0, 0.0, 0.0]))\n"
    )
    loaded = run_to_end([sys.executable, ELSEWHERE, use, shell.folder / "runs" / "one"])
    assert re.fullmatch(r"action [01]\n", loaded.stdout), loaded.stderr


@pytest.mark.parametrize(
    "code",
    [
        "import fcntl",
        "import resource",
        "import os; os.fork",
        "import select; select.epoll",
        "import signal; signal.SIGKILL",
        "import ctypes; ctypes.CDLL(None)",
        "import farflung.learner.storage.run_folder",
    ],
)
def test_what_posix_alone_has_is_missed(code: str, tmp_path: Path) -> None:
    """Otherwise the test above could not fail; a learner has a lock that needs POSIX."""
    script = tmp_path / "script.py"
    script.write_text(code)
    found = run_to_end([sys.executable, ELSEWHERE, script])
    assert found.returncode == 1
    assert re.search(r"(ModuleNotFound|Attribute|Type)Error: ", found.stderr)
