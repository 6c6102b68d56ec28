"""An acting graph at work: one onnxruntime session answers for all due seats of a policy."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np
import onnxruntime

from farflung.actor.acting.graph_check import LOCATION, check
from farflung.common.data.layout import layout
from farflung.common.data.spec import Graph
from farflung.common.data.weights import Version, Weights
from farflung.common.process.errors import Refused

# Of all sessions of a process together: their weights (at most 1 GiB, twice while new ones come)
# and what they compute. A graph has some MB of it.
GRAPH_BYTES = 4 << 30
SENTENCE_LETTERS = 500


class ActingPolicy(Protocol):
    """An acting graph at work, or a stand-in."""

    def load(self, weights: Weights) -> None:
        """Answer by these weights from now on."""

    def answer(self, inputs: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        """Return outputs [n, *shape] for observations by column.

        These are [n, *shape], or [n, stack, *shape]. For all seats they are the same arrays in each
        call.
        """


class Policy:
    """Answers for seats in one call, with the weights that were loaded last."""

    def __init__(self, graph: Graph) -> None:
        """Check the graph, which came over the network. It answers from the first `load` on."""
        check(graph)
        self._graph = graph
        self._outputs = [output.name for output in graph.outputs]
        self._session: Any = None
        self._inputs: dict[str, np.ndarray] = {}  # of the last call
        self._binding: Any = None  # to the arrays of the last call, if it came twice
        self._answers: list[np.ndarray] = []  # of the binding
        # Sessions that `load` may take: the two newest, since it may be asked for the last one
        # while another thread prepares the next.
        self._prepared: tuple[tuple[Version, Any], ...] = ()
        self._retired: Any = None  # the session before: it ends in the thread that prepares

    def prepare(self, weights: Weights) -> None:
        """Build the session of a version aside, and let it answer once; `load` then takes it.

        Call it from one other thread. Neither building nor the first answer holds up the next
        answer of the present session, nor does the end of the one before.
        """
        self._retired = None
        made, shown = session(self._graph, weights), self._inputs
        made.run(self._outputs, shown or _nothing(self._graph))
        self._prepared = ((weights.version, made), *self._prepared[:1])

    def load(self, weights: Weights) -> None:
        """Act on these weights from the next answer on."""
        made = dict(self._prepared).get(weights.version)
        if made is not None:
            self._retired = self._session
        else:
            made = session(self._graph, weights)
        self._session, self._inputs = made, {}

    def answer(self, inputs: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        """Return outputs [N, *shape] in the graph's order for inputs [N, *shape] by name.

        The same call has the same bits in any process; the same row in a batch of another size, or
        at another place in it, need not. The next answer may overwrite the outputs.
        """
        if self._session is None:
            raise ValueError("a policy answers from the first load() on")
        try:
            known = self._inputs
            if len(known) != len(inputs):
                return self._answer_once(inputs)
            for name, array in known.items():
                if inputs[name] is not array:
                    return self._answer_once(inputs)
            # The same arrays again, with other numbers: a binding saves a quarter of the time.
            if self._binding is None:
                self._bind()
            self._session.run_with_iobinding(self._binding)
        except Exception as error:  # onnxruntime's errors have no common ancestor of their own
            raise Refused("graph", f"it cannot answer: {_sentence(error)}") from error
        return self._answers

    def _answer_once(self, inputs: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        answers: Sequence[np.ndarray] = self._session.run(self._outputs, inputs)
        rows = len(next(iter(inputs.values())))
        for output, array in zip(self._graph.outputs, answers, strict=True):
            if array.shape != (rows, *output.shape):  # the model's own word for it is no proof
                raise ValueError(f"{output.name} is {array.shape} for {rows} seats")
        lasting = all(array.flags.c_contiguous for array in inputs.values())  # others are copied
        self._inputs, self._binding = dict(inputs) if lasting else {}, None
        self._answers = [*answers]
        return answers

    def _bind(self) -> None:
        """Bind the session to the arrays of the last call."""
        self._binding = binding = self._session.io_binding()
        for name, array in self._inputs.items():
            binding.bind_cpu_input(name, array)
        for name, array in zip(self._outputs, self._answers, strict=True):
            place = array.ctypes.data
            binding.bind_output(name, "cpu", 0, array.dtype, array.shape, place)


def _nothing(graph: Graph) -> dict[str, np.ndarray]:
    """Return inputs of zeros for one seat, by name."""
    return {tensor.name: np.zeros((1, *tensor.shape), tensor.dtype) for tensor in graph.inputs}


def session(graph: Graph, weights: Weights) -> Any:
    """Return a session of a checked graph on these weights: one thread, bit-stable, silent."""
    total = layout(tensor.size for tensor in graph.weights)[1]
    if weights.tensors != graph.weights or len(weights.block) != total:
        raise Refused("weights", "they are not those of the acting graph")
    _bound_memory()
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.use_env_allocators", "1")
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
        raise Refused("graph", f"onnxruntime does not take it: {_sentence(error)}") from error


class WholeGraph:
    """A model with its weights in it, as `learner export` writes it. Open none that is hostile."""

    def __init__(self, model: bytes, outputs: Sequence[str] = ()) -> None:
        """Open a model that answers with these outputs, in this order; by default with all."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4  # as above
        try:
            self._session = onnxruntime.InferenceSession(
                model, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # as above
            raise Refused("graph", f"onnxruntime does not take it: {_sentence(error)}") from error
        self.inputs = [taken.name for taken in self._session.get_inputs()]
        self.outputs = [*outputs] or [output.name for output in self._session.get_outputs()]

    @property
    def metadata(self) -> Mapping[str, str]:
        """The texts that its writer added."""
        found: Mapping[str, str] = self._session.get_modelmeta().custom_metadata_map
        return found

    def answer(self, inputs: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        """Return outputs [N, *shape] for inputs [N, *shape] by name."""
        try:
            answers: Sequence[np.ndarray] = self._session.run(self.outputs, dict(inputs))
        except Exception as error:  # as above
            raise Refused("graph", f"it cannot answer: {_sentence(error)}") from error
        return answers


@cache
def _bound_memory() -> None:
    """Make one bounded arena for all sessions of this process: the cost of a graph is not known."""
    place = onnxruntime.OrtMemoryInfo(
        "Cpu", onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, onnxruntime.OrtMemType.DEFAULT
    )
    # It grows by what is asked for, instead of by powers of two.
    arena = onnxruntime.OrtArenaCfg({"max_mem": GRAPH_BYTES, "arena_extend_strategy": 1})
    onnxruntime.create_and_register_allocator(place, arena)


def _sentence(error: Exception) -> str:
    """Return what onnxruntime says, in one line of a bounded length."""
    text = " ".join(str(error).split())
    if "Available memory of" in text or isinstance(error, MemoryError):
        return f"it needs more than {GRAPH_BYTES >> 30} GiB of memory"
    return text[:SENTENCE_LETTERS]
