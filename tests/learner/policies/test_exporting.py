"""Exports of a run's policy: they act as the run's evaluator does, and say what they are."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from support.learners import a_policy_run
from support.shown import inputs, observations

import farflung
from farflung.actor.acting.policy import Policy
from farflung.actor.worlds import gymnasium
from farflung.common.data.spec import World
from farflung.common.data.states import states
from farflung.common.process.errors import ConfigurationError, UsageError
from farflung.learner.policies import exporting, onnx_file, proof
from farflung.learner.policies.exporting import open_source, to_onnx, to_safetensors
from farflung.learner.storage import policies

pytestmark = pytest.mark.slow


def bare(file, spec, seen, begins):
    """Return the actions of a bare onnxruntime session for observations of the environment."""
    session = onnxruntime.InferenceSession(file)
    feeds = inputs(spec, seen, begins)
    if states(spec.graph):
        return remembering(session, spec, feeds, begins)
    return session.run(["action"], feeds)[0]


def remembering(session, spec, feeds, begins):
    """Return the actions of one episode after another, with the state as documented."""
    kept = [state.name for state in states(spec.graph)]
    zeros = {each.name: np.zeros((1, *each.shape), np.float32) for each in states(spec.graph)}
    actions, state = [], zeros
    for row, begun in enumerate(begins):
        seen = {name: feed[row : row + 1] for name, feed in feeds.items()}
        wanted = ["action", *(f"next_{name}" for name in kept)]
        action, *after = session.run(wanted, seen | (zeros if begun else state))
        state = dict(zip(kept, after, strict=True))
        actions.append(action[0])
    return np.array(actions)


def test_file_acts_as_the_evaluator_on_a_thousand_observations(run, tmp_path):
    """Bare onnxruntime, `farflung.load` of the file and of the run, and the evaluator's graph."""
    spec, file = policies.read_spec(run), tmp_path / "a.onnx"
    to_onnx(open_source(run, ""), file)
    seen, begins = observations(run, 1000)
    actions = bare(file, spec, seen, begins)
    by_file, by_run = farflung.load(file), farflung.load(run)
    expected = []
    for observation, begun in zip(seen, begins, strict=True):
        if begun:
            by_file.reset()
            by_run.reset()
        expected.append(by_run.act(observation))
        assert by_file.act(observation) == expected[-1]
    assert actions.tolist() == np.array(expected).tolist()
    dominated = "stamp" in spec.observation  # by a number of millions
    assert len(set(actions.tolist())) > 1 or dominated
    make = gymnasium.make(spec.world)
    assert all(make.action_space.contains(action) for action in actions)


def test_file_answers_with_the_values_of_the_acting_graph(run, tmp_path):
    """So does a batch of any size."""
    source, file = open_source(run, "last"), tmp_path / "a.onnx"
    to_onnx(source, file)
    session, graph = onnxruntime.InferenceSession(file), Policy(source.spec.graph)
    graph.load(source.weights)
    names = [output.name for output in session.get_outputs()]
    assert names == ["action", *(output.name for output in source.spec.graph.outputs)]
    inputs = {**proof.random(source.spec, 70), **proof.any_state(source.spec, 70)}
    for part in proof.batches(inputs):
        shown = exporting.proof.shifted(part, source.spec, source.facts.starts)
        (found,) = session.run(["q"], shown)
        assert proof.near(graph.answer(part)[0], found)


def test_file_says_what_it_is(run_of, tmp_path):
    """Spec, checkpoint and evaluation are in its metadata; the checker of ONNX accepts it."""
    run, file = run_of("plain"), tmp_path / "a.onnx"
    to_onnx(open_source(run, ""), file)
    onnx.checker.check_model(onnx.load(file), full_check=True)
    metadata = onnxruntime.InferenceSession(file).get_modelmeta().custom_metadata_map
    facts = json.loads(metadata["farflung"])
    assert (facts["checkpoint"], facts["version"], facts["returns"]) == ("best", "1.1", [1.0, 3.0])
    assert facts["spec"]["world"]["environment"] == metadata["environment"] == "CartPole-v1"
    assert farflung.load(file).spec.world == World("CartPole-v1")
    assert farflung.load(file).version == "1.1"


def test_checkpoints_have_their_own_weights(run_of, tmp_path):
    """The best is the default; the last has other values."""
    run = run_of("plain")
    files = {name: tmp_path / f"x{name}.onnx" for name in ("", "best", "last", "1")}
    for name, file in files.items():
        to_onnx(open_source(run, name), file)
    zeros = {"observations": np.ones((1, 4), np.float32)}
    values = {
        name: onnxruntime.InferenceSession(file).run(["q"], zeros)[0].tolist()
        for name, file in files.items()
    }
    assert values[""] == values["best"] != values["last"] == values["1"]


def test_file_that_acts_otherwise_is_not_written(run_of, tmp_path, monkeypatch):
    """A weight is changed on its way, or the wrong action is chosen: the proof notices both."""
    source, file = open_source(run_of("plain"), ""), tmp_path / "a.onnx"
    embed = onnx_file._embed

    def changed(graph, weights):
        embed(graph, open_source(run_of("plain"), "last").weights)

    with monkeypatch.context() as patch:
        patch.setattr(onnx_file, "_embed", changed)
        with pytest.raises(ConfigurationError, match="differ in q"):
            to_onnx(source, file)
    wrong = source.facts.starts | {"actions": (1,)}
    model = onnx_file.written(source.spec, wrong, source.weights, {})
    with pytest.raises(ConfigurationError, match="different actions"):
        proof.prove(model, source.spec, {}, source.weights, source.run_folder)
    assert not file.exists()


def test_write_that_fails_leaves_the_file_before_it(run_of, tmp_path, monkeypatch):
    """It is replaced as a whole."""
    source, file = open_source(run_of("plain"), ""), tmp_path / "a.onnx"
    to_onnx(source, file)
    before = file.read_bytes()

    def refused(*_):
        raise ConfigurationError("not proved")

    monkeypatch.setattr(proof, "prove", refused)
    with pytest.raises(ConfigurationError):
        to_onnx(open_source(run_of("plain"), "last"), file)
    assert file.read_bytes() == before


def test_place_that_cannot_be_written_is_refused_before_the_work(run_of, tmp_path):
    """Another ending, and a folder that is not there."""
    source = open_source(run_of("plain"), "")
    with pytest.raises(UsageError, match="the name of this file ends with"):
        to_onnx(source, tmp_path / "a.pt")
    with pytest.raises(ConfigurationError, match="no folder"):
        to_onnx(source, tmp_path / "nowhere" / "a.onnx")


def test_weights_are_exported_under_the_names_of_the_module(run, tmp_path):
    """With a card beside them, which a second export may replace."""
    from safetensors import safe_open

    source = open_source(run, "")
    for _ in range(2):
        place = to_safetensors(source, tmp_path / "a.safetensors")
    with safe_open(tmp_path / "a.safetensors", "numpy") as file:
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        facts = json.loads(file.metadata()["farflung"])
    assert facts["version"] == "1.1"
    assert found.keys() == source.weights.arrays.keys()
    assert all((found[name] == array).all() for name, array in source.weights.arrays.items())
    card = place.read_text()
    assert card.startswith("---\nlibrary_name: farflung\n")
    assert "2.0 ± 12.7 (95 %) over 2 episodes" in card
    assert source.spec.world.environment in card


def test_card_of_another_is_not_replaced(run_of, tmp_path):
    """A README.md that is there may be a person's work."""
    (tmp_path / "README.md").write_text("# Mine\n")
    with pytest.raises(ConfigurationError, match="another folder"):
        to_safetensors(open_source(run_of("plain"), ""), tmp_path / "a.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


def test_recorded_observations_are_those_of_the_journal(tmp_path):
    """A run that collected has some; each is an input of the graph."""
    from support.learner_epoch import LearnerEpoch

    epoch = LearnerEpoch(tmp_path)
    epoch.receive(*range(1, 7))
    epoch.end()
    found = proof.recorded(epoch.core.spec, tmp_path, 1000)
    rows = found["observations"]
    assert rows.shape == (6 * 8, 4)
    assert sorted(set(rows[:, 0].tolist())) == [1, 2, 3, 4, 5, 6]
    assert len(proof.recorded(epoch.core.spec, tmp_path, 10)["observations"]) == 10


def test_stacks_of_a_trajectory_end_before_its_last_frame():
    """Frames 0 to 4 with a stack of 2 are three steps: they see 0 1, 1 2 and 2 3."""
    frames = np.arange(5)
    assert proof.stacks(frames, 2).tolist() == [[0, 1], [1, 2], [2, 3]]
    assert proof.stacks(frames, 1).tolist() == [0, 1, 2, 3]


def test_rows_with_two_best_actions_are_ties():
    """Rounding may choose either: 1 and 1.00001 are, 1 and 1.01 are not."""
    values = np.array([[1.0, 1.00001, 0.0], [1.0, 1.01, 0.0]])
    assert proof.tied(values).tolist() == [True, False]
    assert proof.tied(np.zeros((2, 1))).tolist() == [False, False]


def test_run_without_a_best_checkpoint_exports_its_last(tmp_path):
    """Its card has no evaluation."""
    run = a_policy_run(tmp_path, environment="CartPole-v1")
    (run / "checkpoints" / "best").unlink()
    source = open_source(run, "")
    assert (source.facts.checkpoint, source.facts.returns) == ("last", ())
    place = to_safetensors(source, tmp_path / "a.safetensors")
    assert "greedy evaluation while it trained: none" in place.read_text()
