"""The best evaluation is kept with the weights that were evaluated."""

import errno
import threading

import numpy as np
import pytest
from support.learners import a_config, a_learner, an_empty_run
from support.makers import a_spec, some_weights
from support.waiting import eventually

from farflung.common.data.parcel import Results
from farflung.common.data.weights import Version
from farflung.learner.core.progress import EvaluationResult
from farflung.learner.endpoint.recent import RecentWeights
from farflung.learner.storage import best_keeper, policies
from farflung.learner.storage.best_keeper import AGAIN_S, BestKeeper
from farflung.learner.storage.saver import Saver

SPEC = a_spec()


def evaluated(version, *returns):
    """Return the result of an evaluation."""
    episodes = Results(np.array(returns, np.float64), np.full(len(returns), 3, np.int32))
    return EvaluationResult(100, Version(1, version), episodes)


def published(count):
    """Return so many versions, each with its number in all weights."""
    recent = RecentWeights()
    for number in range(1, count + 1):
        recent.add(some_weights(SPEC, number, value=number))
    return recent


def on_disk(run):
    """Return version, a weight, and the mean of the best evaluation on disk."""
    weights = policies.read_weights(run, SPEC, "best")
    return weights.version.number, weights.arrays["matrix"][0, 0], policies.read_best(run).returns


def consider(keeper, result, now=0.0):
    """Take one result, and wait for what is written."""
    keeper.consider(result, now)
    eventually(lambda: not keeper.busy)


def test_evaluated_weights_are_kept_not_todays(tmp_path):
    """The result of version 2 comes when version 9 is the newest."""
    keeper = BestKeeper(tmp_path, published(9).find)
    consider(keeper, evaluated(2, 4.0, 6.0))
    assert on_disk(tmp_path) == (2, 2.0, (4.0, 6.0))
    assert keeper.sentence == f"5.0 ± 12.7 under version 1.2 in {tmp_path}/checkpoints/best"


def test_weights_of_fewer_steps_than_an_interval_are_never_the_best(tmp_path):
    """A run that ends soon after its first evaluation has its last weights only."""
    recent = RecentWeights()
    for number, steps in ((1, 0), (2, 99), (3, 100)):
        recent.add(some_weights(SPEC, number, steps=steps))
    keeper = BestKeeper(tmp_path, recent.find, 100)
    for version in (1, 2):
        consider(keeper, evaluated(version, 50.0, 50.0))
        assert policies.read_best(tmp_path) is None
    consider(keeper, evaluated(3, 4.0, 6.0))
    assert on_disk(tmp_path)[0] == 3


def test_worse_and_equal_evaluations_change_nothing(tmp_path):
    """Twenty of them, and then a better one."""
    keeper = BestKeeper(tmp_path, published(30).find)
    consider(keeper, evaluated(1, 5.0))
    for number in range(2, 22):
        consider(keeper, evaluated(number, 5.0 - number % 3))
    assert on_disk(tmp_path) == (1, 1.0, (5.0,))
    consider(keeper, evaluated(22, 5.5))
    assert on_disk(tmp_path)[0] == 22


def test_next_epoch_knows_the_best_of_those_before(tmp_path):
    """A worse evaluation after a restart replaces nothing; the draft of a killed write goes."""
    consider(BestKeeper(tmp_path, published(3).find), evaluated(1, 5.0))
    draft = tmp_path / "checkpoints" / ".best.99999.draft"
    draft.write_bytes(b"torn")
    keeper = BestKeeper(tmp_path, published(3).find)
    assert not draft.exists()
    consider(keeper, evaluated(2, 4.0))
    assert on_disk(tmp_path)[0] == 1
    consider(keeper, evaluated(3, 6.0))
    assert on_disk(tmp_path)[0] == 3


def test_weights_that_are_gone_are_named_and_not_replaced_by_others(tmp_path, caplog):
    """Its result came after a restart, say. The best one on disk stays."""
    keeper = BestKeeper(tmp_path, published(3).find)
    consider(keeper, evaluated(1, 5.0))
    consider(keeper, evaluated(77, 9.0))
    assert on_disk(tmp_path)[0] == 1
    assert "version 1.77 was evaluated best (9.0), and its weights are gone" in caplog.text
    consider(keeper, evaluated(2, 6.0))
    assert on_disk(tmp_path)[0] == 2


def test_damaged_best_evaluation_is_replaced_by_the_next(tmp_path, caplog):
    """It is said, and training goes on."""
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "best").write_bytes(b"noise")
    keeper = BestKeeper(tmp_path, published(3).find)
    assert "damaged" in caplog.text
    consider(keeper, evaluated(1, -5.0))
    assert on_disk(tmp_path)[0] == 1


def test_full_disk_is_reported_once_and_tried_again(tmp_path, monkeypatch):
    """The weights wait in memory until the disk has room, or a better evaluation comes."""
    write, full = policies.write_best, OSError(errno.ENOSPC, "No space left on device")

    def refused(*_):
        raise full

    keeper = BestKeeper(tmp_path, published(9).find)
    monkeypatch.setattr(policies, "write_best", refused)
    consider(keeper, evaluated(1, 5.0), now=100.0)
    assert "No space left" in keeper.problem()
    assert keeper.problem() == ""
    consider(keeper, None, now=101.0)
    monkeypatch.setattr(policies, "write_best", write)
    consider(keeper, None, now=102.0)
    assert policies.read_best(tmp_path) is None
    consider(keeper, None, now=101.0 + AGAIN_S)
    assert on_disk(tmp_path) == (1, 1.0, (5.0,))


def test_better_result_during_a_write_is_written_after_it(tmp_path, monkeypatch):
    """The newest best is on disk at the end, and the last write is awaited."""
    go, write = threading.Event(), policies.write_best
    monkeypatch.setattr(
        policies, "write_best", lambda *content: (go.wait(60) and write(*content)) or None
    )
    keeper = BestKeeper(tmp_path, published(9).find)
    keeper.consider(evaluated(1, 1.0), 0.0)
    keeper.consider(evaluated(2, 2.0), 0.0)
    keeper.consider(evaluated(3, 3.0), 0.0)
    go.set()
    assert keeper.finish(evaluated(4, 2.5)) == ""
    assert on_disk(tmp_path)[0] == 3


def test_failed_last_write_is_said(tmp_path, monkeypatch):
    """The run ends all the same."""

    def refused(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(policies, "write_best", refused)
    keeper = BestKeeper(tmp_path, published(1).find)
    assert "Input/output error" in keeper.finish(evaluated(1, 1.0))
    assert best_keeper.FINAL_S > 0


@pytest.mark.slow
def test_numbered_checkpoints_come_and_go_and_the_best_stays(tmp_path):
    """Each of them has its acting weights too, which are those of the core."""
    core = a_learner(a_config(), tmp_path / "runs").core
    run, weights = an_empty_run(tmp_path), core.publish()
    saver = Saver(run, core, find={weights.version: weights}.get)
    saver.best.consider(EvaluationResult(1, weights.version, evaluated(1, 5.0).results), 0.0)
    for _ in range(7):
        core.algorithm.policy().parameters().__next__().data.add_(1)
        saver.finish()
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["000005", "000006", "000007", "best"]
    best = policies.read_weights(tmp_path, core.spec, "best")
    assert bytes(best.block) == bytes(weights.block)
    last = policies.read_weights(tmp_path, core.spec, "last")
    assert bytes(last.block) == bytes(core.acting().block) != bytes(best.block)
