"""An acting graph at work: one onnxruntime session answers for all due seats of a policy."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime

from farflung.actor.acting.graph_check import LOCATION, check
from farflung.common.data.layout import layout
from farflung.common.data.spec import Graph
from farflung.common.data.weights import Weights
from farflung.common.process.errors import Refused


class Policy:
    """Answers for seats in one call, with the weights that were loaded last."""

    def __init__(self, graph: Graph) -> None:
        """Check the graph, which came over the network. It answers from the first `load` on."""
        check(graph)
        self._graph = graph
        self._outputs = [output.name for output in graph.outputs]
        self._session: Any = None

    def load(self, weights: Weights) -> None:
        """Act on these weights from the next answer on."""
        self._session = session(self._graph, weights)

    def answer(self, inputs: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        """Return outputs [N, *shape] in the graph's order for inputs [N, *shape] by name.

        The same call has the same bits in any process; the same row in a batch of another size, or
        at another place in it, need not.
        """
        if self._session is None:
            raise ValueError("a policy answers from the first load() on")
        try:
            answers: Sequence[np.ndarray] = self._session.run(self._outputs, inputs)
        except Exception as error:  # onnxruntime's errors have no common ancestor of their own
            raise Refused("graph", f"it cannot answer: {error}") from error
        return answers


def session(graph: Graph, weights: Weights) -> Any:
    """Return a session of a checked graph on these weights: one thread, bit-stable, silent."""
    total = layout(tensor.size for tensor in graph.weights)[1]
    if weights.tensors != graph.weights or len(weights.block) != total:
        raise Refused("weights", "they are not those of the acting graph")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = (
        4  # what fails is raised; the rest is for those who build onnxruntime
    )
    options.add_external_initializers_from_files_in_memory([LOCATION], [weights.block], [total])
    try:
        return onnxruntime.InferenceSession(
            graph.model, options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # as above
        raise Refused("graph", f"onnxruntime does not take it: {error}") from error
