"""What an idle process costs, what a person is told, and how runs begin and end."""

import json
import re
import signal
import threading
import time

import pytest

from common.messages import Hello

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(180)]

MEASURED_S = 3.0
IDLE_PERCENT = 5.0


@pytest.fixture
def alone(shared):
    """The shared learner with nobody else there, and nothing left to learn."""
    shared.shows(lambda status: status.idle_seconds > 1)
    return shared


def refusal(program, code):
    """The one sentence with which a program refuses to go on."""
    assert program.ended() == code, program.said
    assert "Traceback" not in program.said
    lines = [line for line in program.said.splitlines() if not re.match(r"\d{4}-.* INFO ", line)]
    assert len(lines) == 1, lines
    return lines[0]


def test_idle_processes_hardly_use_the_processor(alone, shell, free_address):
    """A learner without actors, and an actor without a learner, which says that it waits and ends when it is told to."""
    actor = shell.actor(free_address, "--name", "alone")
    actor.says(f"waiting for a learner at {free_address}")
    before = alone.cpu_s(), actor.cpu_s()
    threading.Event().wait(MEASURED_S)  # the measurement itself
    shares = [100 * (program.cpu_s() - used) / MEASURED_S for program, used in zip((alone, actor), before, strict=True)]
    print(f"idle learner {shares[0]:.1f} %, idle actor {shares[1]:.1f} % of a processor")
    assert max(shares) < IDLE_PERCENT
    actor.send(signal.SIGINT)
    assert actor.ended(10) == 130


def test_an_actor_is_small_and_quick(shared, shell, tap, eventually):
    """Resident memory while collecting, and the time from its start to its first message."""
    tapped = tap(shared.address)
    started_at = time.monotonic()
    actor = shell.actor(tapped.address, "--name", "small")
    eventually(lambda: tapped.newest(Hello, "small"), "the first message", program=actor)
    first_s = next(at for at, word in tapped.messages if word.actor == "small") - started_at
    shared.shows(lambda status: any(a.name == "small" and a.acknowledged > 10 for a in status.actors))
    print(f"first message after {first_s:.2f} s, resident {actor.resident_mb():.0f} MB")
    assert actor.resident_mb() < 110
    assert first_s < 5
    actor.send(signal.SIGTERM)
    assert actor.ended(10) == 0


def test_status_tells_how_a_learner_is(shared, shell):
    """For people and for machines, with exit code 0; from a port where nobody is, a sentence and 1."""
    human, machine = shell.start("learner", "status", shared.address), shell.start("learner", "status", shared.address, "--json")
    nobody = shell.start("learner", "status", f"127.0.0.1:{shared.address.port + 7}")
    assert human.ended() == 0
    assert machine.ended() == 0
    assert "steps" in human.said
    assert json.loads(machine.said)["environment"] == "CartPole-v1"
    assert "does a learner run there" in refusal(nobody, 1)


@pytest.mark.parametrize("program", ["learner", "actor"])
def test_what_is_misspelt_is_refused_with_a_suggestion(program, shell):
    """As a flag, as a variable of the environment, as a key of a file."""
    (shell.folder / "wrong.toml").write_text("polcy = 'mine'\n")
    flag = shell.start(program, "--polcy", "mine")
    variable = shell.start(program, FARFLUNG_POLCY="mine")
    key = shell.start(program, "--config", "wrong.toml")
    assert refusal(flag, 64).endswith("Did you mean --policy?")
    assert refusal(variable, 64).endswith("Did you mean FARFLUNG_POLICY?")
    assert refusal(key, 64).endswith("Did you mean policy?")


def test_what_cannot_work_is_refused_in_a_sentence(shared, shell):
    """Spaces, missing packages, unknown names, ports that are taken; and no folder of such a run stays in the way of the next."""
    address = shared.address
    lander = shell.learner("--env", "LunarLander-v3", "--until", "seconds > 0")
    refused = {
        "MountainCarContinuous-v0 | box": shell.learner("--env", "MountainCarContinuous-v0"),
        "no environment is registered | did you mean CartPole-v1": shell.learner("--env", "CartPol-v1"),
        "nowhere": shell.learner("--init", "nowhere"),
        f"cannot listen on tcp://127.0.0.1:{address.port}": shell.learner("--steps", 1, port=address.port),
        "--insecure": shell.learner("--bind", "0.0.0.0"),
        "--allow-env": shell.actor(address, "--allow-env", "Acrobot-v1"),
    }
    if lander.ended():  # where Box2D, an extra, is not installed
        refused["LunarLander-v3 | box2d"] = lander
    for parts, program in refused.items():
        sentence = refusal(program, 78)
        assert all(part in sentence for part in parts.split(" | ")), sentence
    assert len(list((shell.folder / "runs").glob("*"))) == (lander.ended() == 0)


def test_until_ends_a_run_and_init_begins_with_its_weights(shell):
    """The condition is met, the checkpoint written; a run that begins with it and learns nothing has the same parameters."""
    first = shell.learner("--actors", 1, "--warmup", 200, "--name", "first", "--until", "steps >= 600 and updates > 20")
    assert first.ended() == 0
    trained = re.search(r"parameters: (\w+)", first.said)[1]
    assert "solved: steps >= 600" in first.said

    folder = shell.folder / "runs" / "first"
    heir = shell.learner("--init", folder, "--until", "seconds >= 0")
    stranger = shell.learner("--init", folder, "--env", "Acrobot-v1", "--until", "seconds >= 0")
    assert heir.ended() == 0
    assert re.search(r"parameters: (\w+)", heir.said)[1] == trained
    assert "do not fit" in refusal(stranger, 78)
