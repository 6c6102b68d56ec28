"""The codec of a spec that just came over the network."""

from farflung.common.data.spec import Spec, Tensor, layout
from farflung.common.process.errors import Refused
from farflung.common.protocol.parcels import ParcelCodec


def parcel_codec(spec: Spec) -> ParcelCodec:
    """Return the codec of a spec's parcels; refuse a spec that makes no sense."""
    if spec.horizon < 1 or spec.stack < 1:
        raise Refused(
            "spec",
            f"it makes no sense: a horizon of {spec.horizon} steps, {spec.stack} frames in a stack",
        )
    try:
        columns = (Tensor(column.name, column.dtype, column.shape) for column in spec.columns)
        layout(tensor.size for tensor in (*columns, *spec.graph.weights))
        return ParcelCodec(spec)
    except (KeyError, TypeError, ValueError) as error:
        raise Refused("spec", f"it makes no sense: {error!r}") from error
