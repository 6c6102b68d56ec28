"""The choice of the action inside an exported file, for each head."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper
from support.makers import some_weights

from farflung.actor.acting.policy import WholeGraph
from farflung.common.data.spec import Space, Spec, World
from farflung.common.heads import registry
from farflung.common.heads.discrete import QHead
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.learner.graph import acting_graph
from farflung.learner.policies import onnx_file, proof

pytestmark = pytest.mark.slow

PLAIN = {"": Space("box", "float32", (3,))}


def a_spec(head, module, action, observation=PLAIN, outputs=("q",)):
    """Return the spec of a module with this head, and its weights."""
    inputs = acting_graph.observation_inputs(observation, 1)
    graph = acting_graph.export(module, inputs, outputs)
    spec = Spec("one", "default", "async", World("Toy-v0"), observation, action, head, 8, 1, graph)
    weights = some_weights(spec)
    for name, array in acting_graph.state_arrays(module, graph).items():
        weights.arrays[name][...] = array
    return spec, weights


def answered(spec, weights, rows, starts=None):
    """Return the outputs of the file by name, after its proof."""
    starts = starts or {}
    model = onnx_file.written(spec, starts, weights, {"a": "b"})
    from pathlib import Path

    proof.prove(model, spec, starts, weights, Path("/nowhere"))
    session = onnxruntime.InferenceSession(model)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, rows), strict=True))


class Gaussian(torch.nn.Module):
    """A mean far outside of the bounds now and then, and a deviation."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor([1.0, 5.0]))

    def forward(self, observations):
        mean = observations[:, :2] * self.scale
        return mean, torch.zeros_like(mean)


class Mean(Gaussian):
    """The mean alone."""

    def forward(self, observations):
        return super().forward(observations)[0]


@pytest.mark.parametrize("dtype", ["float32"])
def test_mean_is_clipped_to_the_bounds_of_the_space(dtype):
    """-2 and 3 are clipped to -1 and 2.5; a bound without end clips nothing."""
    action = Space("box", dtype, (2,), low=(-1.0, -np.inf), high=(1.0, 2.5))
    spec, weights = a_spec("gaussian", Gaussian(), action, outputs=("mean", "log_std"))
    rows = {"observations": np.array([[-2.0, 0.6, 0], [0.5, -9, 0]], np.float32)}
    found = answered(spec, weights, rows)
    assert [*found] == ["action", "mean", "log_std"]
    assert found["action"].tolist() == [[-1.0, 2.5], [0.5, -45.0]]
    assert found["mean"].tolist() == [[-2.0, 3.0], [0.5, -45.0]]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("head", ["squashed_gaussian", "deterministic"])
def test_mean_before_a_tanh_is_scaled_to_the_bounds_of_the_space(head, dtype):
    """0 is the middle, and large numbers are the bounds themselves."""
    action = Space("box", dtype, (2,), low=(-1.0, 0.5), high=(3.0, 2.5))
    outputs = ("mean", "log_std")[: 2 if head == "squashed_gaussian" else 1]
    module = Gaussian() if head == "squashed_gaussian" else Mean()
    spec, weights = a_spec(head, module, action, outputs=outputs)
    rows = {"observations": np.array([[0, 0, 0], [50, -10, 0]], np.float32)}
    found = answered(spec, weights, rows)
    assert [*found] == ["action", *outputs]
    assert found["action"].dtype == np.dtype(dtype)
    assert found["action"].tolist() == [[1.0, 1.5], [3.0, 0.5]]


@pytest.mark.parametrize(("dtype", "start"), [("int64", 0), ("int64", -1), ("int32", 7)])
@pytest.mark.parametrize(("head", "output"), [("q", "q"), ("logits", "logits")])
def test_highest_value_is_chosen_and_counted_as_the_space_counts(head, output, dtype, start):
    """The first of equal ones, in the dtype of the space."""
    action = Space("discrete", dtype, (), (3,))
    spec, weights = a_spec(head, torch.nn.Identity(), action, outputs=(output,))
    rows = {"observations": np.array([[0, 5, 1], [2, 2, 1], [0, 1, 9]], np.float32)}
    starts = {"actions": (start,)} if start else {}
    found = answered(spec, weights, rows, starts)
    assert found["action"].tolist() == [1 + start, start, 2 + start]
    assert found["action"].dtype == np.dtype(dtype)


@pytest.mark.parametrize("start", [None, (5, -1, 0, 2)])
def test_highest_of_each_choice_is_chosen(start):
    """Four choices at once, in a square, each counted from its own start."""
    module = torch.nn.Linear(3, 11)
    action = Space("multidiscrete", "int64", (2, 2), (2, 3, 4, 2))
    spec, weights = a_spec("multi_logits", module, action, outputs=("logits",))
    rows = {"observations": np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)}
    found = answered(spec, weights, rows, {"actions": start} if start else None)
    parts = np.split(found["logits"], [2, 5, 9], axis=1)
    expected = np.stack([part.argmax(axis=1) for part in parts], axis=1) + (start or 0)
    np.testing.assert_array_equal(found["action"], expected.reshape(9, 2, 2))


def test_head_of_ones_own_keeps_its_outputs_alone(monkeypatch):
    """A file cannot know its choice: it says the values, and `farflung.load` chooses."""

    class Mine(QHead):
        best = ""

    monkeypatch.setitem(registry.HEADS, "mine", Mine())
    spec, weights = a_spec("mine", torch.nn.Identity(), Space("discrete", "int64", (), (3,)))
    rows = {"observations": np.zeros((2, 3), np.float32)}
    assert [*answered(spec, weights, rows)] == ["q"]


def test_policy_beyond_the_limit_of_onnx_is_refused(monkeypatch):
    """In a sentence with the way out."""
    spec, weights = a_spec("q", torch.nn.Identity(), Space("discrete", "int64", (), (3,)))
    monkeypatch.setattr(onnx_file, "MAX_BYTES", 10)
    with pytest.raises(ConfigurationError, match="--format safetensors"):
        onnx_file.written(spec, {}, weights, {})


@pytest.mark.parametrize("content", [b"", b"noise"])
def test_file_that_is_no_model_is_refused(content):
    """In one line."""
    with pytest.raises(Refused, match="onnxruntime does not take it"):
        WholeGraph(content)


def test_model_of_another_is_no_policy_of_ours(tmp_path):
    """So are one with other metadata, and one of a later format."""
    import farflung

    node = helper.make_node("Identity", ["a"], ["b"])
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("a", "b")]
    graph = helper.make_graph([node], "other", values[:1], values[1:])
    opset = [helper.make_opsetid("", 20)]
    for number, text in enumerate([None, "noise", "[]", '{"format": 2}', '{"format": 1}']):
        model = helper.make_model(graph, opset_imports=opset, ir_version=10)
        if text is not None:
            model.metadata_props.add(key="farflung", value=text)
        path = tmp_path / f"{number}.onnx"
        path.write_bytes(model.SerializeToString())
        onnx.checker.check_model(model)
        with pytest.raises(ConfigurationError, match="is not a policy that"):
            farflung.load(path)
