"""The versions that are archived are a function of training's counts alone."""

import threading

import pytest
from support.makers import a_spec, some_weights

from farflung.common.data.weights import Version
from farflung.learner.schedule.every import Every
from farflung.learner.storage import archive
from farflung.learner.storage.archiver import Archiver

SPEC = a_spec()


def published(version):
    """Return weights with 10 updates and one step for each number, in every epoch."""
    return some_weights(SPEC, version.number, epoch=version.epoch, steps=version.number)


def archiver(run, every=None, most=100, find=published):
    """Return an archiver that finds every publication."""
    return Archiver(run, find, every or Every(50, "updates"), most)


def publish(one, numbers, epoch=1):
    """Let it look at publications, with an episode in each; return the versions it archived."""
    found = [one.look(Version(epoch, number), number) for number in numbers]
    assert one.finish() == ""
    return [each.number for each in found if each is not None]


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        (Every(50, "updates"), [5, 10, 15]),
        (Every(4, "steps"), [4, 8, 12, 16]),
        (Every(7, "episodes"), [7, 14]),
        (Every(55, "updates"), [6, 11, 17]),
    ],
)
def test_version_is_archived_at_the_first_publication_after_it_is_due(tmp_path, every, expected):
    """In updates, of which a publication has ten, in steps and in episodes."""
    one = archiver(tmp_path, every)
    assert publish(one, range(1, 18)) == expected
    assert [each.version.number for each in one.index] == expected
    assert archive.read(tmp_path) == one.index


def test_each_publication_is_looked_at_once(tmp_path):
    """A look comes after every action, and most are no publication."""
    asked = []
    one = archiver(tmp_path, find=lambda version: asked.append(version) or published(version))
    for _ in range(5):
        one.look(Version(1, 5), 5)
    one.look(Version(1, 6), 6)
    one.finish()
    assert asked == [(1, 5), (1, 6)]
    assert len(one.index) == 1


def test_next_epoch_goes_on_from_the_newest_archived_version(tmp_path):
    """Nothing is archived again after a restart, however many versions were lost."""
    assert publish(archiver(tmp_path), range(1, 12)) == [5, 10]
    assert publish(archiver(tmp_path), range(8, 22), epoch=2) == [15, 20]
    assert [str(each.version) for each in archive.read(tmp_path)] == ["1.5", "1.10", "2.15", "2.20"]


@pytest.mark.parametrize("most", [3, 5, 6, 100])
@pytest.mark.parametrize("killed_at", [4, 5, 9, 10, 15])
def test_learner_that_does_its_newest_round_again_has_the_same_pools(tmp_path, most, killed_at):
    """A version that is archived counts again from its publication on, as it did before."""

    def pools(one, numbers, epoch):
        """Return the versions of the pool of each publication, and those that end a period."""
        found, one.waits = [], True
        for number in numbers:
            pool = [each.number for each in one.lasting]
            if one.look(Version(epoch, number), number) is not None:
                found.append((number, sorted(each.number for each in one.versions)))
            found.append((number, pool))
            assert one.finish() == ""
        return found

    every = Every(20, "updates")
    for run in ("one", "two"):
        (tmp_path / run).mkdir()
    expected = pools(archiver(tmp_path / "one", every, most), range(1, 20), 1)
    pools(archiver(tmp_path / "two", every, most), range(1, killed_at + 1), 1)
    again = archiver(tmp_path / "two", every, most)
    again.go_back(killed_at - 1)
    later = pools(again, range(killed_at, 20), 2)
    assert later == [each for each in expected if each[0] >= killed_at]
    assert len(again.index) == min(most, 9)


@pytest.mark.parametrize("most", [1, 2, 3, 4, 9])
def test_versions_that_last_are_there_after_the_next_one(tmp_path, most):
    """So an actor can get each version of a pool until the pool after it has come."""
    one = archiver(tmp_path, Every(1, "updates"), most)
    for number in range(1, 20):
        publish(one, [number])
        before, lasting = {each.version for each in one.index}, set(one.lasting)
        publish(one, [number + 1])
        after = {each.version for each in one.index}
        if number < most or most < 3:
            assert lasting == before
        else:
            assert lasting == before & after
            assert len(lasting) == most - 1
            assert max(before) in lasting


@pytest.mark.parametrize("most", [5, 6, 9])
def test_versions_of_rounds_last_longer(tmp_path, most):
    """They are there after the next two: an actor may have asked in the last moment of a round."""
    one = archiver(tmp_path, Every(1, "updates"), most)
    one.waits, there, lasting = True, [], []
    for number in range(1, 30):
        publish(one, [number])
        there.append({each.version for each in one.index})
        lasting.append(set(one.lasting))
    for before, after, stay in zip(there, there[2:], lasting, strict=False):
        assert stay == before & after
        assert max(before) in stay
        assert len(stay) >= min(len(before), most - 2)


def test_without_an_interval_nothing_is_archived_and_the_archive_stays(tmp_path):
    """A run that is resumed without one keeps its versions."""
    publish(archiver(tmp_path), range(1, 12))
    one = Archiver(tmp_path, published, None, 1)
    assert publish(one, range(12, 40)) == []
    assert [each.version.number for each in one.index] == [5, 10]


def test_training_waits_while_a_version_is_written(tmp_path, monkeypatch):
    """One write at a time, and no version is left out on a slow disk."""
    add, at_once, most = archive.add, [0], []

    def slow(*arguments):
        at_once[0] += 1
        most.append(at_once[0])
        threading.Event().wait(0.02)
        found = add(*arguments)
        at_once[0] -= 1
        return found

    monkeypatch.setattr(archive, "add", slow)
    assert publish(archiver(tmp_path), range(5, 30)) == [5, 10, 15, 20, 25]
    assert most == [1] * 5


def test_failure_is_said_once_and_the_next_version_is_tried(tmp_path, monkeypatch):
    """A full disk ends no run; the version that is lacking was never announced."""

    def full(*_):
        raise OSError(28, "No space left on device")

    one = archiver(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(archive, "add", full)
        one.look(Version(1, 5), 5)
        assert "No space left" in one.finish()
    assert (one.problem(), one.index) == ("", ())
    assert publish(one, range(6, 12)) == [10]
    assert [each.version.number for each in one.index] == [10]


def test_version_that_is_gone_is_left_out(tmp_path):
    """Memory for recent versions is bounded; the next publication is archived in its place."""
    one = archiver(
        tmp_path, find=lambda version: None if version.number < 8 else published(version)
    )
    assert publish(one, range(1, 12)) == [8, 10]
