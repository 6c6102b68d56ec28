"""Killed learners that resume, and starts that are cut short."""

import io
import re
import shutil
import signal
import time

import pytest
from support.learners import restoring
from support.waiting import took_at_most

from farflung.common.net.address import parse_address
from farflung.learner.config import LearnerConfig
from farflung.learner.storage.audit import audit
from farflung.learner.storage.run_folder import open_run

pytestmark = [pytest.mark.faults, pytest.mark.slow]

SMALL = ("--replay-ratio", 1, "--warmup", 200, "--dqn.hidden", 8)
RECOVERY_S = 30.0  # the aim is 5 s, and the time is printed


def test_killed_learner_resumes_with_the_same_replay_and_the_same_actor(shell, free_address):
    """The replay's hash is the checkpoint's; steps, updates and the epoch continue."""
    flags = (*SMALL, "--name", "one", "--checkpoint-every", 0.3)
    first = shell.learner(*flags, port=free_address.port)
    actor = shell.actor(free_address, "--name", "box")
    said = r"checkpoint: \S+, with the replay (\w{32}) as of journal ([1-9]\d*:\d+)"
    first.listens().shows(lambda status: status.updates > 20)
    first.says(said)
    first.process.kill()
    first.process.wait()
    hashes = {place: found for found, place in re.findall(said, first.said)}

    started_at = time.monotonic()
    second = shell.learner(*flags, "--resume", "auto", port=free_address.port)
    second.listens()
    restored = second.says(r"resumed: epoch 2, (\d+) steps, (\d+) updates")
    status = second.shows(
        lambda status: status.steps > int(restored[1]) and status.updates > int(restored[2])
    )
    taken_s = time.monotonic() - started_at
    print(f"\ntraining goes on {taken_s:.1f} s after the start that follows a kill -9")
    assert took_at_most(taken_s, RECOVERY_S)
    again = second.says(r"the replay is (\w{32}) as of journal (\d+:\d+), as in the checkpoint")
    assert hashes.get(again[2], again[1]) == again[1]
    assert (status.epoch, status.lost, status.refused) == (2, 0, {})
    assert actor.running
    actor.says("the learner was started again")


def test_actor_killed_before_a_resume_is_not_counted_for_ever(shell, free_address):
    """The status names it silent within ten seconds, and a line for people counts none."""
    flags = (*SMALL, "--name", "one")
    first = shell.learner(*flags, port=free_address.port)
    actor = shell.actor(free_address, "--name", "box")
    first.listens().shows(lambda status: status.steps > 200)
    actor.kill()
    first.send(signal.SIGTERM)
    assert first.ended() == 0
    second = shell.learner(*flags, "--resume", "auto", port=free_address.port).listens()
    second.shows(lambda status: [it.state for it in status.actors] == ["silent"])
    second.says(r"steps/s, .* actors 0")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, (0,)), (signal.SIGKILL, (-signal.SIGKILL,))]
)
def test_start_that_is_cut_short_does_not_block_the_next(shell, number, code):
    """After SIGTERM its folder is gone; after SIGKILL `--resume auto` starts in it once more.

    A torch that loads for ever keeps the first one in its start.
    """
    flags = (*SMALL, "--name", "one", "--resume", "auto")
    endless = shell.folder / "endless"
    endless.mkdir()
    (endless / "torch.py").write_text("import threading\nthreading.Event().wait()\n")
    first = shell.learner(*flags, PYTHONPATH=str(endless))
    folder = shell.folder / "runs" / "one"
    first.until((folder / "run.json").exists, "a folder")
    first.send(number)
    assert first.ended() in code
    assert folder.exists() == (number is signal.SIGKILL)
    second = shell.learner(*flags).listens()
    assert second.shows(lambda status: True).epoch == 1


def test_copy_in_the_epoch_of_its_original_gets_nothing(shell, free_address):
    """A copied folder is resumed at the address of the original, while that is gone.

    Both are in epoch 2. The actor names the copy and sends it nothing. All that was acknowledged is
    in the original, which goes on in epoch 3, and shows what the actor saw.
    """
    run, copy, receipts = (shell.folder / name for name in ("runs/one", "copy", "receipts"))
    receipts.touch()
    at = {"port": free_address.port}
    first = shell.learner("--name", "one", "--keep-journal", *SMALL, **at)
    actor = shell.actor(free_address, "--envs", 2, "--acknowledged", receipts)
    first.until(lambda: count(receipts) >= 10, "acknowledgements in epoch 1")
    shutil.copytree(run, copy)
    end(first)
    second = shell.learner("--resume", run, **at)
    before = count(receipts)
    second.until(lambda: count(receipts) >= before + 10, "acknowledgements in epoch 2")
    end(second)
    copied = shell.learner("--resume", copy, **at).listens()
    actor.says(r"two learners of the same run \S+ publish here, as when its folder was copied")
    actor.says(
        r"only learner \w+ of run \S+ is received, and learner \w+ in epoch 2 acknowledged parcels "
        "in that same epoch: one runs in a copy of the other's folder. "
        "Stop the copy, and let the original continue with --resume"
    )
    assert copied.shows(lambda status: status.state == "run").epoch == 2
    end(copied)
    third = shell.learner("--resume", run, **at).listens()
    before = count(receipts)
    third.until(lambda: count(receipts) >= before + 10, "acknowledgements in epoch 3")
    assert third.shows(lambda status: any("its folder was copied" in p for p in status.problems))
    end(third, actor)
    said = io.StringIO()
    code = audit(run, [receipts], "", said)
    print("\n" + next(line for line in said.getvalue().splitlines() if "acknowledged:" in line))
    assert code == 0, said.getvalue()
    assert "lost: 0; duplicated: 0; changed: 0" in said.getvalue()


def count(receipts):
    """Return the number of acknowledged parcels."""
    return receipts.read_text().count("\n")


def end(*programs):
    """Kill these programs."""
    for program in programs:
        program.send(signal.SIGKILL)
        program.ended()


def test_actor_names_two_learners_of_one_run_and_waits(shell, quarter, shared):
    """A folder was copied while its learner runs; the copy resumes behind the same broker."""
    copy = shell.folder / "copy"
    shutil.copytree(quarter.folder / "runs" / "shared", copy)
    run, config = open_run(copy), LearnerConfig(port=0, resume=str(copy))
    with restoring(config) as network:  # as far as a learner gets before torch, in the next epoch
        broker = shell.start("broker", shared.address, network.address, "--port", 0)
        found = broker.says(r"listening: actor (\S+) \(feed on port (\d+)\)")
        actor = shell.actor(parse_address(found[1], int(found[2])))
        actor.says(
            rf"two learners of the same run {run.identity} publish here, "
            r"as when its folder was copied "
            r"\(learner \w+ in epoch 2 and learner \w+ in epoch 1\): waiting until one is stopped"
        )
        broker.says("trains policy default too")
