"""Costs of idle processes, messages to users, and how runs begin and end."""

import importlib.util
import json
import math
import os
import re
import resource
import shlex
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.programs import PATIENCE_S
from support.terminals import Terminal
from support.waiting import eventually, run_to_end, used_at_most

from farflung.common.protocol.messages import Hello

pytestmark = [pytest.mark.system, pytest.mark.slow]
BEGIN_AS_A_USERS = (  # and not as forks: these measure what a start costs
    "test_idle_learner_and_actor_hardly_use_the_processor",
    "test_actor_without_credit_hardly_uses_the_processor",
    "test_actor_sends_its_first_message_within_the_promised_time",
    "test_actor_stays_within_the_promised_memory",
)

PERCEPTRON_MB, CONVOLUTIONAL_MB = 50, 75  # of its own; pages of libraries add 30 to 45
# Processor time, twice what is promised by the clock; `python bench/startup.py` prints that figure.
FIRST_MESSAGE_S, HELP_S = 1.0, 0.6
HEAVY = {"torch", "onnxruntime", "gymnasium", "numpy", "zmq", "rich.live_render"}
TESTS = str(Path(__file__).parents[1])
MOMENTS_S = (0.0, 0.04, 0.1, 0.18, 0.28)  # after a handler of signals stands


@pytest.fixture
def alone(shared):
    """The shared learner without actors and without anything left to learn."""
    shared.shows(lambda status: status.idle_seconds > 1)
    return shared


def refusal(program, code):
    """Return the one sentence with which a program refuses to start."""
    assert program.ended() == code, program.said
    assert "Traceback" not in program.said
    lines = [line for line in program.said.splitlines() if not re.match(r"\d{4}-.* INFO ", line)]
    assert len(lines) == 1, lines
    return lines[0]


def test_idle_learner_and_actor_hardly_use_the_processor(alone, shell, free_address, idle):
    """A learner without actors, and an actor without a learner, which says that it waits."""
    actor = shell.actor(free_address, "--name", "alone")
    actor.says(f"waiting for a learner at {free_address}")
    assert idle(alone, actor)
    actor.send(signal.SIGINT)
    assert actor.ended() == 130


def test_actor_without_credit_hardly_uses_the_processor(shell, idle):
    """Its learner has all the rows it wants and learns for long: the actor only listens."""
    flags = (
        "--steps",
        600,
        "--warmup",
        500,
        "--replay-ratio",
        1e6,
        "--publish-every",
        10**9,
        "--durability",
        "none",
    )
    learner = shell.learner(*flags).listens()
    actor = shell.actor(learner.address, "--name", "held")
    learner.shows(
        lambda status: status.steps >= 600 and [a.state for a in status.actors] == ["waiting"]
    )
    assert idle(actor)  # for seconds, in which the last of its parcels has been inserted
    held = learner.shows(lambda status: True)
    later = learner.shows(lambda status: status.updates > held.updates)
    assert later.steps == held.steps
    actor.send(signal.SIGTERM)
    assert actor.ended() == 0


def test_actor_sends_its_first_message_within_the_promised_time(shared, shell, tap):
    """Processor time from its start, the best of three: the first may have to read its files."""
    tapped = tap(shared.address)
    taken_s = [math.inf]
    for name in ("quick-1", "quick-2", "quick-3"):
        if min(taken_s) <= FIRST_MESSAGE_S:
            break
        actor = shell.actor(tapped.address, "--name", name)
        actor.until(lambda name=name: tapped.newest(Hello, name), "the first message")
        taken_s.append(actor.cpu_s())
        actor.send(signal.SIGTERM)
        assert actor.ended() == 0
    print(f"first message after {min(taken_s):.2f} s of processor time")
    assert used_at_most(min(taken_s), FIRST_MESSAGE_S)


def test_actor_stays_within_the_promised_memory(shared, shell):
    """With a perceptron, and with the convolutional network on four frames of 84 by 84 bytes."""
    worlds = {"PYTHONPATH": os.pathsep.join([TESTS, os.environ.get("PYTHONPATH", "")])}
    few = (
        "--capacity",
        1000,
        "--warmup",
        100,
        "--batch-size",
        8,
        "--publish-every",
        2,
        "--replay-ratio",
        0.5,
        "--durability",
        "none",
    )
    pictures = shell.learner(
        "--env", "toys/Picture-v0", "--import", "support.worlds", "--stack", 4, *few, **worlds
    )
    for learner, most_mb, more in (
        (shared, PERCEPTRON_MB, ()),
        (pictures.listens(), CONVOLUTIONAL_MB, ("--import", "support.worlds")),
    ):
        actor = shell.actor(learner.address, "--name", "small", *more, **worlds)
        learner.shows(
            lambda status: any(
                a.name == "small" and a.acknowledged > 20 and a.version > 3 for a in status.actors
            )
        )
        own_mb = actor.own_mb()
        print(f"own {own_mb:.0f} of {most_mb} MB, resident {actor.resident_mb():.0f} MB")
        assert own_mb <= most_mb
        actor.send(signal.SIGTERM)
        assert actor.ended() == 0


@pytest.mark.parametrize("role", ["learner", "actor", "broker"])
def test_help_comes_at_once_and_imports_nothing_heavy(role):
    """Processor time, the best of three."""
    code = (
        f"import sys; sys.argv = ['{role}', '--help']\n"
        f"try:\n    from farflung.{role}.main import main; main()\n"
        "finally:\n    print(*sys.modules)"
    )
    taken_s = [math.inf]
    for _ in range(3):
        if min(taken_s) <= HELP_S:
            break
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        shown = run_to_end([sys.executable, "-c", code])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert shown.stdout.startswith(f"Usage: {role}")
    assert HEAVY & set(shown.stdout.splitlines()[-1].split()) == set()
    print(f"{role} --help after {min(taken_s):.2f} s of processor time")
    assert used_at_most(min(taken_s), HELP_S)


def handles(process, number):
    """Return True once a process handles a signal, by what Linux says of it."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16) >> (number - 1) & 1


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    "words",
    [
        ("learner", "--port", 0),
        ("actor", "127.0.0.1:9"),
        ("broker", "127.0.0.1:9", "--port", 0),
        ("farflung", "actor", "127.0.0.1:9"),
        (sys.executable, "-m", "farflung", "broker", "127.0.0.1:9", "--port", 0),
    ],
    ids=lambda words: " ".join(map(str, words[-3:])),
)
def test_ctrl_c_while_a_command_starts_prints_no_traceback(words, shell):
    """At some moments of its first 0.3 s; Python's own start, before our modules, is out of reach.

    Python handles SIGINT from its start; that SIGTERM is handled shows that our handlers stand.
    """
    for after_s in MOMENTS_S:
        program = shell.start(*words)
        program.until(lambda program=program: handles(program.pid, signal.SIGTERM), "a handler")
        program.goes_on(after_s)
        program.send(signal.SIGINT)
        # A shell shows 130 for both: CPython ends itself by the signal if the exception passed
        # through code that was compiled from a string, as that of a named tuple.
        assert program.ended() in (130, -signal.SIGINT), program.said
        assert "Traceback" not in program.said
        assert "KeyboardInterrupt" not in program.said


def test_status_command_prints_the_status_of_a_learner(shared, shell):
    """For people and for machines, with exit code 0; from a port without a learner, 1.

    The shared learner has not moved since an earlier test; a status waits 5 s for its answer.
    """

    def answered(*flags):
        words = (shared.address, "--stalled-after", 0, *flags)
        program = shell.start("learner", "status", *words)
        return program.said if program.ended() == 0 else None

    assert "steps" in eventually(answered, "a status", PATIENCE_S)
    told = eventually(lambda: answered("--json"), "a status in JSON", PATIENCE_S)
    assert json.loads(told)["environment"] == "CartPole-v1"
    with socket.socket() as taken:  # so that no other process listens at this port
        taken.bind(("127.0.0.1", 0))
        silent = shell.start("learner", "status", f"127.0.0.1:{taken.getsockname()[1]}")
        assert "nothing listens" in refusal(silent, 1)


@pytest.mark.parametrize("program", ["learner", "actor"])
def test_misspelt_setting_is_refused_with_a_suggestion(program, shell):
    """As a flag, as a variable of the environment, as a key of a file."""
    (shell.folder / "wrong.toml").write_text("polcy = 'mine'\n")
    flag = shell.start(program, "--polcy", "mine")
    variable = shell.start(program, **{f"FARFLUNG_{program.upper()}_POLCY": "mine"})
    key = shell.start(program, "--config", "wrong.toml")
    assert refusal(flag, 64).endswith("Did you mean --policy?")
    assert refusal(variable, 64).endswith(f"Did you mean FARFLUNG_{program.upper()}_POLICY?")
    assert refusal(key, 64).endswith("Did you mean policy?")


def test_impossible_start_is_refused_in_a_sentence(shared, shell):
    """Spaces, unknown names, ports in use; the folder of such a run does not block the next one."""
    address = shared.address
    refused = {
        "MountainCarContinuous-v0 | box": shell.learner("--env", "MountainCarContinuous-v0"),
        "no environment is registered | did you mean CartPole-v1": shell.learner(
            "--env", "CartPol-v1"
        ),
        "nowhere": shell.learner("--init", "nowhere"),
        f"cannot listen on tcp://127.0.0.1:{address.port}": shell.learner(
            "--steps", 1, port=address.port
        ),
        "--allow-env": shell.actor(address, "--allow-env", "Acrobot-v1"),
    }
    opened = shell.learner(
        "--bind", "0.0.0.0"
    )  # with the commands that help, which take more than a line
    for parts, program in refused.items():
        sentence = refusal(program, 78)
        assert all(part in sentence for part in parts.split(" | ")), sentence
    assert opened.ended() == 78
    assert "learner keys" in opened.said
    assert "--insecure" in opened.said
    assert "Traceback" not in opened.said
    assert not list((shell.folder / "runs").glob("*"))


@pytest.mark.skipif(
    importlib.util.find_spec("Box2D") is not None,
    reason="the extra is installed: test_installation.py runs it",
)
def test_environment_without_its_extra_is_refused_with_the_command_that_installs_it(shell):
    """LunarLander needs Box2D."""
    lander = shell.learner("--env", "LunarLander-v3")
    sentence = (
        "LunarLander-v3 needs a package that is not installed here: pip install 'farflung[box2d]'"
    )
    assert refusal(lander, 78) == f"learner: {sentence}"


@contextmanager
def on_a_terminal(terminal, folder, *words):
    """Start a learner with this terminal as its standard output and error."""
    command = [str(Path(sys.executable).parent / "learner"), "--port", "0", "--ui", "panel", *words]
    variables = os.environ | {"TERM": "xterm-256color", "OMP_NUM_THREADS": "1"}
    variables["FARFLUNG_LEARNER_DASHBOARD"] = "off"  # of each of these learners, for its cost
    out = terminal.stream
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=variables
    ) as learner:
        try:
            yield learner
        finally:
            learner.kill()


@pytest.fixture
def terminal():
    """Of 80 by 24."""
    made = Terminal()
    yield made
    made.close()


def test_learner_on_a_stopped_terminal_meets_its_goal_saves_and_ends(tmp_path, terminal):
    """Stopped as with Ctrl-S from before the first frame of the panel."""
    terminal.stop()
    words = ("--name", "quiet", "--actors", "1", "--warmup", "200", "--until", "updates > 100")
    with on_a_terminal(terminal, tmp_path, *words) as learner:
        eventually(lambda: learner.poll() is not None, "the end", PATIENCE_S)
        assert learner.returncode == 0
    assert (tmp_path / "runs" / "quiet" / "FINISHED").exists()


def test_training_goes_on_behind_a_stopped_and_then_closed_terminal(tmp_path, terminal):
    """After Ctrl-Q the panel is back with the newest figures; a closed window ends nothing."""
    figures = tmp_path / "runs" / "quiet" / "metrics.jsonl"

    def steps():
        text = figures.read_text() if figures.exists() else ""
        lines = text[: text.rfind("\n") + 1].splitlines()  # the last one may be incomplete
        return json.loads(lines[-1])["time/total_timesteps"] if lines else 0

    words = ("--name", "quiet", "--actors", "1", "--warmup", "200", "--replay-ratio", "1")
    with on_a_terminal(terminal, tmp_path, *words) as learner:
        eventually(lambda: terminal.has_shown("local-0") and steps(), "steps", PATIENCE_S)
        terminal.stop()
        eventually(lambda: terminal.read() == "", "the rest of what was shown")
        at_stop = steps()
        eventually(lambda: steps() > at_stop + 500, "steps behind a stopped terminal", PATIENCE_S)
        assert terminal.read() == ""
        terminal.go_on()
        terminal.shows("local-0")
        terminal.shows("waiting")
        terminal.vanish()
        at_end = steps()
        eventually(lambda: steps() > at_end + 500, "steps without a terminal", PATIENCE_S)
        learner.send_signal(signal.SIGTERM)
        eventually(lambda: learner.poll() is not None, "the end", PATIENCE_S)
        assert learner.returncode == 0
    assert "stopped: SIGTERM" in (tmp_path / "runs" / "quiet" / "logs" / "learner.log").read_text()


def test_until_ends_a_run_and_init_begins_with_its_weights(shell):
    """A run that begins with the checkpoint and learns nothing has the same parameters."""
    first = shell.learner(
        "--actors",
        1,
        "--warmup",
        200,
        "--name",
        "first",
        "--until",
        "steps >= 600 and updates > 20",
    )
    assert first.ended() == 0
    trained = re.search(r"parameters: (\w+)", first.said)[1]
    assert "solved: steps >= 600" in first.said

    folder = shell.folder / "runs" / "first"
    heir = shell.learner("--init", folder, "--until", "seconds >= 0")
    stranger = shell.learner("--init", folder, "--env", "Acrobot-v1", "--until", "seconds >= 0")
    assert heir.ended() == 1, "nothing was learned"
    assert re.search(r"parameters: (\w+)", heir.said)[1] == trained
    assert "do not fit" in refusal(stranger, 78)

    # The line that continues it, pasted, does: without the flag it is told of its goal.
    pasted = f"learner --resume {folder} --until ''"
    assert pasted in first.said
    further = shell.learner(*shlex.split(pasted)[1:]).listens()
    further.process.terminate()
    assert further.ended() == 0


def test_learners_with_one_seed_train_the_same_bits(shell):
    """Two sequential processes of one seed have the same parameters, a third has others."""
    flags = ("--mode", "sequential", "--steps", 300, "--warmup", 100)
    learners = [
        shell.start("learner", *flags, "--seed", seed, "--name", f"run-{n}")
        for n, seed in enumerate((0, 0, 1))
    ]
    for learner in learners:
        assert learner.ended() == 0, learner.said
    found = [re.search(r"parameters: (\w+)", learner.said)[1] for learner in learners]
    assert found[0] == found[1] != found[2]
