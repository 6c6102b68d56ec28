"""The actor in JavaScript: its own tests, its CartPole, and a run with a kill."""

import io
import json
import re
import shutil
import signal
import subprocess
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from support.contexts import ANYWHERE
from support.programs import Shell

from farflung.common.net import keys, sockets
from farflung.learner.storage.audit import audit

FOLDER = Path(__file__).parents[2] / "examples" / "node-actor"
NODE = shutil.which("node")
LACKING = (
    "node is not installed"
    if NODE is None
    else ""
    if (FOLDER / "node_modules").is_dir()
    else "its packages are not installed: npm ci --ignore-scripts in examples/node-actor"
)
needs_node = pytest.mark.skipif(bool(LACKING), reason=LACKING)
WITHIN_S = 300.0
SMALL = ("--replay-ratio", 1, "--warmup", 200, "--dqn.hidden", 8, "--checkpoint-every", 0.3)
STEPS = 60


def ran(*words: str) -> str:
    """Return what Node prints; it must succeed."""
    assert NODE is not None
    ended = subprocess.run(
        [NODE, *words], cwd=FOLDER, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert ended.returncode == 0, f"{ended.stdout[-6000:]}\n{ended.stderr[-3000:]}"
    return ended.stdout


def test_its_lock_file_names_no_registry() -> None:
    """Each package has a hash, and any mirror serves: `npm install` would add addresses."""
    packages = json.loads((FOLDER / "package-lock.json").read_text())["packages"]
    del packages[""]
    assert len(packages) > 10
    assert all(one["integrity"].startswith("sha512-") for one in packages.values())
    assert not any("resolved" in one for one in packages.values())


@pytest.mark.slow
@needs_node
def test_its_own_tests_pass() -> None:
    """All vectors, delivery, recording and choices, by Node's own runner."""
    said = ran("--test", "--test-reporter=tap")
    counts = dict(re.findall(r"^# (pass|fail|cancelled) (\d+)$", said, re.MULTILINE))
    assert int(counts["pass"]) >= 60
    assert (counts["fail"], counts["cancelled"]) == ("0", "0")


@pytest.mark.slow
@needs_node
def test_its_cartpole_is_that_of_gymnasium() -> None:
    """The same states from the same beginnings, and the same endings."""
    rng = np.random.default_rng(0)
    world = gymnasium.make("CartPole-v1").unwrapped
    wanted, games = [], []
    for _ in range(5):
        first, actions = rng.uniform(-0.05, 0.05, 4), rng.integers(2, size=STEPS)
        world.reset(seed=0)
        world.state = tuple(first)
        for taken, action in enumerate(actions, 1):  # noqa: B007
            terminated = world.step(action)[2]
            wanted.append([*world.state, terminated])
            if terminated:
                break
        games.append({"first": first.tolist(), "actions": actions[:taken].tolist()})
    found = json.loads(
        ran(
            "--input-type=module",
            "--eval",
            """
            import { CartPole } from "./cartpole.js";
            const world = new CartPole(Math.random);
            const seen = JSON.parse(process.argv[1]).flatMap(({ first, actions }) => {
              world.begin(first);
              return actions.map((action) => {
                const { terminated } = world.step(action);
                return [...world.state, Number(terminated)];
              });
            });
            console.log(JSON.stringify(seen));
            """,
            json.dumps(games),
        )
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.faults
@needs_node
@pytest.mark.timeout(600)
def test_it_trains_beside_an_actor_of_ours_and_loses_nothing_when_the_learner_is_killed(
    tmp_path: Path, context: sockets.Context
) -> None:
    """With keys. The audit finds each parcel that either actor had acknowledged, once."""
    shell = Shell(tmp_path, context)
    keys.make(tmp_path / "keys")
    address, *listening = sockets.listen(context, ANYWHERE, 1)
    for socket in listening:
        socket.close(linger=0)
    key = ("--keys", tmp_path / "keys" / "actor.key")
    flags = ("--name", "one", *SMALL, "--keep-journal", "--keys", tmp_path / "keys")

    def learner(*more: object):
        made = shell.learner(*flags, *more, port=address.port)
        made.keys = keys.client_keys(tmp_path / "keys")
        return made.listens()

    def acknowledged(status) -> dict[str, int]:
        return {actor.name: actor.acknowledged for actor in status.actors}

    try:
        first = learner()
        ours = shell.actor(address, *key, "--name", "ours", "--acknowledged", tmp_path / "ours")
        theirs = shell.start(
            NODE, FOLDER / "actor.js", f"127.0.0.1:{address.port}", *key, "--name", "node",
            "--feed-port", address.feed_port, "--acknowledged", tmp_path / "node",
        )  # fmt: skip
        names = ("actor/ours", "actor/node")
        first.shows(
            lambda status: (
                status.updates > 20 and all(acknowledged(status).get(name, 0) > 5 for name in names)
            )
        )
        first.process.kill()
        first.process.wait()

        second = learner("--resume", "auto")
        second.says(r"resumed: epoch 2")
        status = second.shows(
            lambda status: all(acknowledged(status).get(name, 0) > 5 for name in names)
        )
        status = second.learns_on()
        assert (status.epoch, status.lost, status.refused) == (2, 0, {})
        theirs.says("the learner was started again")
        for actor in (ours, theirs):
            actor.send(signal.SIGTERM)
            assert actor.ended() == 0, actor.said
        second.send(signal.SIGTERM)
        assert second.ended() == 0
    finally:
        shell.close()

    said = io.StringIO()
    assert audit(tmp_path / "runs/one", [tmp_path / "ours", tmp_path / "node"], "", said) == 0
    assert "; lost: 0; duplicated: 0; changed: 0" in said.getvalue(), said.getvalue()
    lines = [(tmp_path / name).read_text().count("\n") for name in ("ours", "node")]
    assert f"acknowledged: {sum(lines)};" in said.getvalue()
    assert min(lines) > 10
