"""Spec and acting weights in a run's folder."""

import os

import numpy as np
import pytest
from support.makers import a_command, a_spec, rewritten, some_weights

from farflung.common.data.parcel import Results
from farflung.common.process import atomic_file
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol import packing, tensors, wire
from farflung.common.protocol.messages import Announcement, Beacon, State
from farflung.learner.storage import manifest, policies

SPEC = a_spec()


def results(*returns):
    """Return finished episodes of ten steps."""
    return Results(np.array(returns, np.float64), np.full(len(returns), 10, np.int32))


def keep(run, number, frame=None):
    """Write a numbered checkpoint of acting weights, and nothing else."""
    folder = run / manifest.FOLDER / f"{number:06}"
    folder.mkdir(parents=True)
    frame = tensors.encode_weights(some_weights(SPEC, number)) if frame is None else frame
    (folder / manifest.WEIGHTS).write_bytes(frame)
    kept = [*manifest.kept(run), folder.name]
    atomic_file.write(run / manifest.MANIFEST, "\n".join(kept).encode())


def test_best_evaluation_is_read_as_it_was_written(tmp_path):
    """Weights to the bit, version, steps and episodes. A later one replaces it."""
    assert policies.read_best(tmp_path) is None
    for number in (3, 5):
        policies.write_best(tmp_path, some_weights(SPEC, number, value=number), results(1.0, 3.0))
    best = policies.read_best(tmp_path)
    assert (best.returns, best.lengths) == ((1.0, 3.0), (10, 10))
    assert best.interval.mean == 2.0
    found = policies.read_weights(tmp_path, SPEC, "best")
    assert (found.version, bytes(found.block)) == (
        (1, 5),
        bytes(some_weights(SPEC, 5, value=5).block),
    )
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["best"]


def test_numbered_and_last_weights_are_found(tmp_path):
    """`last` is the newest that the manifest names, not the newest folder."""
    keep(tmp_path, 7)
    keep(tmp_path, 12)
    (tmp_path / manifest.FOLDER / "000013").mkdir()
    assert policies.read_weights(tmp_path, SPEC, "last").version == (1, 12)
    assert policies.read_weights(tmp_path, SPEC, "7").version == (1, 7)
    assert policies.read_weights(tmp_path, SPEC, "000007").version == (1, 7)


@pytest.mark.parametrize("asked", ["3", "newest", "-1", "", "٣", "../7"])
def test_unknown_checkpoint_is_refused_with_those_that_exist(tmp_path, asked):
    """No path is made of it."""
    keep(tmp_path, 7)
    with pytest.raises(ConfigurationError, match="write best, last, or one of 7"):
        policies.read_weights(tmp_path, SPEC, asked)


def test_absent_checkpoint_is_refused_with_the_way_to_one(tmp_path):
    """Without any, without an evaluation, and of a release that wrote no acting weights."""
    with pytest.raises(ConfigurationError, match="no checkpoint yet"):
        policies.read_weights(tmp_path, SPEC, "last")
    with pytest.raises(ConfigurationError, match="--evaluate-every"):
        policies.read_weights(tmp_path, SPEC, "best")
    keep(tmp_path, 7)
    (tmp_path / manifest.FOLDER / "000007" / manifest.WEIGHTS).unlink()
    with pytest.raises(ConfigurationError, match="--resume"):
        policies.read_weights(tmp_path, SPEC, "last")


def test_damaged_weights_are_refused(tmp_path):
    """A changed bit, another run's weights, and those of another graph."""
    frame = bytearray(tensors.encode_weights(some_weights(SPEC, 1)))
    frame[-1] ^= 1
    keep(tmp_path, 1, frame)
    keep(tmp_path, 2, tensors.encode_weights(some_weights(a_spec(run="another"), 1)))
    beacon = Beacon("run-1", "default", 1, (1, 1), 1, 1, State.RUN)
    keep(tmp_path, 3, wire.encode(beacon))
    for number, said in (("1", "checksum"), ("2", "another run"), ("3", "not expected")):
        with pytest.raises(ConfigurationError, match=said):
            policies.read_weights(tmp_path, SPEC, number)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"noise",
        packing.pack({"weights": b"", "returns": [1.0], "lengths": []}),
        packing.pack({"weights": b"", "returns": [], "lengths": []}),
        packing.pack({"weights": b"", "returns": [float("nan")], "lengths": [1]}),
        packing.pack({"weights": b"", "returns": [1e308, -1e308], "lengths": [1, 1]}),
        packing.pack({"weights": b""}),
        packing.pack([1]),
    ],
)
def test_damaged_best_evaluation_is_refused_with_its_path(tmp_path, content):
    """Each error is one sentence."""
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "best").write_bytes(content)
    with pytest.raises(ConfigurationError, match="checkpoints/best is damaged"):
        policies.read_best(tmp_path)


def test_spec_is_read_from_the_folder(tmp_path):
    """A folder without one is no run; a file with something else is damaged."""
    with pytest.raises(ConfigurationError, match="not the folder of a run"):
        policies.read_spec(tmp_path)
    path = tmp_path.joinpath(*policies.SPEC)
    path.parent.mkdir()
    path.write_bytes(wire.encode(Announcement(SPEC, 0, 0, -1, -1)))
    assert policies.read_spec(tmp_path) == SPEC
    for content in (b"", wire.encode(Beacon("run-1", "default", 1, (1, 1), 1, 1, State.RUN))):
        path.write_bytes(content)
        with pytest.raises(ConfigurationError, match="damaged"):
            policies.read_spec(tmp_path)


def test_torn_draft_changes_nothing(tmp_path, monkeypatch):
    """A kill before the rename leaves the best evaluation as it was."""
    policies.write_best(tmp_path, some_weights(SPEC, 1), results(1.0))
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        policies.write_best(tmp_path, some_weights(SPEC, 2), results(9.0))
    assert policies.read_weights(tmp_path, SPEC, "best").version == (1, 1)


def test_spec_of_an_older_release_is_read(tmp_path):
    """A field that it lacks has its default, so that its run can be resumed and evaluated."""

    def older(fields):
        del fields["spec"]["evaluation"]["max_steps"]

    frame = wire.encode(Announcement(a_spec(), 0, 0, -1, -1))
    path = tmp_path.joinpath(*policies.SPEC)
    path.parent.mkdir()
    path.write_bytes(rewritten(frame, older))
    assert policies.read_spec(tmp_path) == a_spec()
    path.write_bytes(wire.encode(a_command()))
    with pytest.raises(ConfigurationError, match="is damaged: kind: it holds no spec"):
        policies.read_spec(tmp_path)
