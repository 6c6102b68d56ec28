"""Policies of a world with masks: loaded, exported, proved and evaluated."""

import numpy as np
import onnx
import onnxruntime
import pytest
from support import worlds
from support.learners import a_policy_run

import farflung
from farflung.actor.acting.policy import WholeGraph
from farflung.actor.worlds import gymnasium
from farflung.common.data.spec import World
from farflung.common.process.errors import ConfigurationError, UsageError
from farflung.learner.policies import card, evaluating, exported, proof
from farflung.learner.policies.asked import Asked
from farflung.learner.policies.exporting import open_source, to_onnx

assert worlds

pytestmark = pytest.mark.slow

STATES = np.arange(500)


@pytest.fixture(scope="module")
def taxi(tmp_path_factory):
    """A run of Taxi, the file of its policy, and the mask of each of its 500 states."""
    folder = tmp_path_factory.mktemp("taxi")
    run = a_policy_run(folder, environment="Taxi-v4")
    to_onnx(open_source(run, ""), folder / "taxi.onnx")
    taxi = gymnasium.make(World("Taxi-v4")).unwrapped
    return run, folder / "taxi.onnx", np.array([taxi.action_mask(state) for state in STATES])


def test_loaded_policy_takes_the_best_legal_action(taxi):
    """Of a folder, of a file and of a file in a bare session, in all states."""
    run, file, legal = taxi
    session = onnxruntime.InferenceSession(file)
    feeds = {"observations": STATES, "action_mask": legal.astype(bool)}
    actions, values = session.run(["action", "q"], feeds)
    best = np.where(legal, values, -np.inf).argmax(axis=1)
    assert (values.argmax(axis=1) != best).any()  # else it would tell nothing
    assert actions.tolist() == best.tolist()
    for path in (run, file):
        policy = farflung.load(path)
        assert policy.act(STATES, mask=legal).tolist() == best.tolist()
        assert policy.act(7, mask=legal[7]) == best[7]
        assert policy.act(7, mask=[0, 0, 0, 0, 1, 0]) == 4


def test_loaded_policy_explores_among_legal_actions(taxi):
    """As it was trained, at its beginning: each legal action of a state, and no other one."""
    run, _, legal = taxi
    policy, rows = farflung.load(run), np.arange(500)
    taken = np.zeros_like(legal)
    for _ in range(60):
        taken[rows, policy.act(STATES, mask=legal, as_trained=True)] += 1
    assert ((taken > 0) <= (legal > 0)).all()
    assert ((taken > 0) == (legal > 0)).all(axis=1).mean() > 0.99


@pytest.mark.parametrize(
    ("mask", "error", "said"),
    [
        (None, UsageError, r"Taxi-v4 allows some of its actions .*mask=info\['action_mask'\]"),
        ([1, 0, 1], UsageError, r"\[1, 0, 1\] was shown, and one of \(6,\) numbers"),
        ([1, 0, 2, 0, 0, 0], UsageError, "each 0 or 1"),
        ([[1, 0], [1]], UsageError, r"\[\[1, 0\], \[1\]\] was shown"),
        ([[1, 1, 1, 1, 1, 1]], UsageError, r"of \(6,\) numbers"),
        ([0] * 6, ConfigurationError, "the action mask in its info allows none"),
    ],
)
def test_mask_that_does_not_fit_is_refused(taxi, mask, error, said):
    """None, of other actions or numbers, of rows, of a batch, and one that allows nothing."""
    with pytest.raises(error, match=said):
        farflung.load(taxi[0]).act(7, mask=mask)


def test_policy_without_masks_takes_none(run_of):
    """It would be left aside without a word."""
    with pytest.raises(UsageError, match="learned without masks"):
        farflung.load(run_of("plain")).act(np.zeros(4), mask=[1, 1])


def test_export_is_proved_with_masks(taxi):
    """A file that takes actions by the opposite of the mask is refused."""
    run, file, _ = taxi
    source = open_source(run, "")
    arguments = source.spec, source.facts.starts, source.weights, run
    model = onnx.load_model(file)
    assert proof.prove(model.SerializeToString(), *arguments).random == 1000
    (where,) = [node for node in model.graph.node if node.op_type == "Where"]
    where.input[1], where.input[2] = where.input[2], where.input[1]
    with pytest.raises(ConfigurationError, match="choose different actions"):
        proof.prove(model.SerializeToString(), *arguments)


def test_model_card_acts_with_a_mask(taxi):
    """Its lines name the input; `farflung.load` in it takes the mask too."""
    file = taxi[1]
    facts = exported.from_text(WholeGraph(file.read_bytes()).metadata["farflung"])
    text = card.card(facts, "policy.onnx", "")
    assert '"action_mask": np.asarray(info["action_mask"], np.bool_)[None],  # [1, 6]' in text
    assert 'act(observation, mask=info["action_mask"])' in text


@pytest.mark.parametrize("as_trained", [False, True])
def test_evaluation_plays_legal_actions_alone(tmp_path, stop, as_trained):
    """The world raises at another one."""
    run = a_policy_run(tmp_path, environment="toys/Gates-v0")
    asked = Asked(episodes=7, as_trained=as_trained)
    found = evaluating.evaluate(run, asked, stop, pytest.fail)
    assert len(found.results.returns) == 7
