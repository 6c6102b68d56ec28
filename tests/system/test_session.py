"""Sessions against a real learner: the example of a simulator, and one that is interfered with."""

import random
import re
import sys
from pathlib import Path
from typing import Any

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
FORMS = ("session", "threaded", "event_loop")

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
    loop = shell.start(sys.executable, EXAMPLES / "own_loop.py", learner.address)
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


def journaled(run: Path, spec: Any) -> dict[int, tuple[int, bool]]:
    """Return action and flag of each step in a run's journal; none is there twice."""
    codec, found = ParcelCodec(spec), {}
    for _, record in segments.read(run / segments.FOLDER):
        assert isinstance(record, Record)
        if record.kind is not Kind.MESSAGE:
            continue
        envelope, opened = payloads.open_message(record.payload)
        for one in codec.decode(opened, envelope).trajectories(spec.columns, spec.stack):
            steps = one.columns[OBSERVATIONS][:-1, 0].astype(int).tolist()
            assert found.keys().isdisjoint(steps)
            taken = one.columns[ACTIONS].tolist(), one.columns[INTERVENED.name].tolist()
            found.update(zip(steps, zip(*taken, strict=True), strict=True))
    return found


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
    there = journaled(run, spec)
    assert len(there) == session.ledger.acknowledged.rows >= 2000
    assert there == {step: truth[step] for step in there}
    assert 0.25 < np.mean([flag for _, flag in there.values()]) < 0.35
    sampled = np.frombuffer(kept.read_bytes(), ROW)
    assert len(np.unique(sampled["step"])) > 1500
    for step, action, intervened in np.unique(sampled).tolist():
        assert (action, intervened) == truth[int(step)]
    audit = shell.start("learner", "audit", run)
    assert audit.ended() == 0
    assert "no problems" in audit.said


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
    goal = ("--warmup", 64, "--replay-ratio", 1, "--steps", 300)
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
