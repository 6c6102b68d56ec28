"""The check of gradients that come in, against this run's learning and versions."""

from farflung.common.data.fields import LARGEST
from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import Spec
from farflung.common.data.weights import Version
from farflung.common.process.errors import Refused
from farflung.common.protocol.tensors import Gradients, GradientsCodec, GradientsEnvelope
from farflung.common.protocol.wire import Opened

METRICS, LETTERS = 64, 64  # of one message, and of a name: the panel shows eight


class GradientCheck:
    """Reads gradients. How stale they are is decided when they are applied, not before."""

    def __init__(self, spec: Spec, largest: float = LARGEST) -> None:
        self._learning = spec.learning
        self._most_steps = spec.learning.most_steps(spec.most_rows) if spec.learning else 0
        self._codec = GradientsCodec(spec.graph.weights, spec.result_extras, largest)

    def read(self, opened: Opened, envelope: GradientsEnvelope, newest: Version) -> Gradients:
        """Return checked gradients of a version that this epoch has published, or refuse them."""
        version = envelope.version
        if version.epoch != newest.epoch:
            raise Refused("epoch", f"taken at {version}, and this is epoch {newest.epoch}")
        if not 1 <= version.number <= newest.number:
            raise Refused("version", f"taken at {version}, and the newest is {newest}")
        self._require_bounded(envelope)
        gradients = self._codec.decode(opened, envelope)
        if self._learning is not None and len(gradients.results.returns) > self._most_steps:
            raise Refused("range", f"more episodes than {self._most_steps} steps can end")
        return gradients

    def require_rows_wanted(self, parcel: Parcel) -> None:
        """Refuse the rows of actors where workers learn alone. Results of evaluations come in."""
        if self._learning is not None and self._learning.alone and not parcel.evaluation:
            raise Refused("kind", "this learner takes no rows: join it with `learner worker`")

    def _require_bounded(self, envelope: GradientsEnvelope) -> None:
        """Refuse counts that no honest worker has: they end runs, and fill the learner's books."""
        sound = all(len(name) <= LETTERS and name.isprintable() for name in envelope.metrics)
        if len(envelope.metrics) > METRICS or not sound:
            raise Refused("metrics", f"more than {METRICS}, or a name that is none")
        if self._learning is None:
            return
        if envelope.samples > self._learning.batch:
            raise Refused(
                "range", f"{envelope.samples} rows, and a batch is {self._learning.batch}"
            )
        if envelope.steps > self._most_steps:
            raise Refused("range", f"{envelope.steps} steps, at most {self._most_steps} are due")
