"""docker-compose.yml with real containers."""

import re
import time
from functools import partial

import pytest
from support import waiting

pytestmark = [pytest.mark.containers, pytest.mark.slow, pytest.mark.timeout(900)]

# Long enough for all that happens to it; `seconds` are those of one start of the learner.
MISHAPS = """
services:
  learner:
    command: [--bind, 0.0.0.0, --keys, /keys, --run-dir, /runs, --resume, auto, --keep-journal]
  actor:
    environment: {FARFLUNG_ACTOR_ACKNOWLEDGED: /receipts/all}
    volumes: ["receipts:/receipts"]
volumes: {receipts: {}}
"""
AWAY_S = 20.0

eventually = partial(waiting.eventually, within_s=90.0)  # a container takes longer than a process

QUICK_TO_JUDGE = """
services:
  learner: {healthcheck: {interval: 1s, timeout: 3s, retries: 2}}
  broker: {healthcheck: {interval: 1s, timeout: 8s, retries: 2}}
"""


def test_compose_files_follow_the_specification(engine, clone):
    """Alone and with the second file; each program checks the files when it reads them."""
    said = engine(
        "docker-compose",
        "-f",
        "docker-compose.yml",
        "-f",
        "docker-compose.gpu.yml",
        "config",
        cwd=clone,
    ).stdout
    assert "driver: nvidia" in said
    assert "PINS: learner-cuda" in said
    assert "FARFLUNG_LEARNER_DEVICE: cuda" in said
    assert (
        "FARFLUNG_LEARNER_ENV: CartPole-v1" in engine("docker-compose", "config", cwd=clone).stdout
    )


def test_services_train_and_end_by_themselves_twice(services):
    """CartPole is solved in a fresh clone, all exit codes are 0; another `up` is another run."""
    compose = services()
    said = compose("up", "--scale", "actor=3", timeout_s=400).stdout
    assert "solved: evaluation >= 475" in said
    codes = compose.exit_codes()
    assert len(codes) == 5
    assert set(codes.values()) == {0}, said
    compose("up", timeout_s=400, FARFLUNG_LEARNER_UNTIL="steps >= 3000")
    assert set(compose.exit_codes().values()) == {0}
    assert len(compose.runs()) == 2


def test_services_lose_nothing_through_kills_and_a_cut(services, engine, images):
    """The learner and an actor are killed, another actor is cut off for 20 s; the audit holds."""
    compose = services(
        MISHAPS,
        FARFLUNG_LEARNER_UNTIL="seconds >= 80",
        FARFLUNG_LEARNER_STEPS="0",
        FARFLUNG_LEARNER_CHECKPOINT_EVERY="5",
    )
    compose("up", "-d", "--scale", "actor=3")
    learner, actors = compose.container("learner"), compose.containers("actor")
    for container in (learner, *actors):
        how = engine.inspect(container)["HostConfig"]
        assert (how["IpcMode"], how["ShmSize"], how["ReadonlyRootfs"], how["CapDrop"]) == (
            "private",
            1 << 20,
            True,
            ["ALL"],
        )
        assert not how["PortBindings"]

    before = eventually(
        lambda: (status := compose.status()).get("updates", 0) > 100 and status, "training"
    )
    engine.stop_everything_in(learner, "KILL")
    after = eventually(
        lambda: (status := compose.status()).get("epoch", 0) == 2 and status, "the learner's return"
    )
    assert after["run"] == before["run"]
    assert after["steps"] >= before["steps"]
    assert engine.inspect(learner)["RestartCount"] == 1

    cut_off, killed = actors[0], actors[1]
    network = f"{compose.name}_default"
    engine("docker", "network", "disconnect", network, cut_off)
    cut_off_at = time.monotonic()
    engine.stop_everything_in(killed, "KILL")
    eventually(lambda: engine.inspect(killed)["RestartCount"] == 1, "the killed actor's return")
    eventually(lambda: time.monotonic() - cut_off_at >= AWAY_S, "the cut to last")
    engine("docker", "network", "connect", network, cut_off)
    host = engine.inspect(cut_off)["Config"]["Hostname"]

    def back():
        found = [actor for actor in compose.status().get("actors", ()) if host in actor["name"]]
        return any(
            actor["state"] in ("running", "waiting") and actor["seen_ago"] < 3 for actor in found
        )

    eventually(back, "the cut-off actor's return")
    codes = eventually(compose.exit_codes, "the end of all", within_s=150)
    assert len(codes) == 5
    assert set(codes.values()) == {0}
    [run] = compose.runs()
    mounts = (f"{compose.name}_runs:/runs:ro", f"{compose.name}_receipts:/receipts:ro")
    words = ("audit", f"/runs/{run}", "--against", "/receipts/all")
    found = engine.once(images["ACTOR_IMAGE"], *words, program="learner", mount=mounts)
    print(found)
    told = re.search(r"acknowledged: (\d+); lost: 0; duplicated: 0; changed: 0", found)
    assert told is not None
    assert int(told[1]) > 100
    assert found.rstrip().endswith("no problems")


def test_healthchecks_follow_progress(services, engine):
    """A learner that stands still is unhealthy, so is the broker in front; both recover."""
    compose = services(
        QUICK_TO_JUDGE,
        FARFLUNG_ACTOR_ADDRESS="broker",
        FARFLUNG_LEARNER_UNTIL="",
        FARFLUNG_LEARNER_STEPS="0",
    )
    compose("--profile", "broker", "up", "-d", "--scale", "actor=1")
    eventually(lambda: compose.status().get("updates", 0) > 0, "training through the broker")
    eventually(lambda: compose.health("broker") == "healthy", "a healthy broker")
    eventually(lambda: compose.health("actor") == "healthy", "a healthy actor")
    engine.stop_everything_in(compose.container("learner"), "STOP")
    eventually(lambda: compose.health("learner") == "unhealthy", "an unhealthy learner")
    eventually(lambda: compose.health("broker") == "unhealthy", "an unhealthy broker")
    engine.stop_everything_in(compose.container("learner"), "CONT")
    eventually(lambda: compose.health("learner") == "healthy", "the learner's recovery")
    eventually(lambda: compose.health("broker") == "healthy", "the broker's recovery")
    compose("--profile", "broker", "stop")
    assert set(compose.exit_codes().values()) == {0}
