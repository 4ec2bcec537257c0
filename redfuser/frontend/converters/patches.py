"""Col2Im: an image from its patches, summed where they overlap."""

from __future__ import annotations

import math
from itertools import chain

from tvm import relax, te, tirx
from tvm.relax import op as R

from redfuser.frontend.converters.common import Attributes, Inputs, constant, dtype_of, extents_of, static_extents


def convert_col2im(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """Col2Im: ``(batch, channels · elements of a patch, patches)`` to ``(batch, channels, *image)``.

    Patches that tile the image are only put in order.

    Raises:
        ValueError: the sizes aren't constant, or there are more or fewer patches than they say.
    """
    data = inputs[0]
    image, patch = ([int(n) for n in constant(inputs[place], what)] for place, what in ((1, "image"), (2, "patch")))
    rank = len(image)
    dilations, strides = (list(attributes.get(name, [1] * rank)) for name in ("dilations", "strides"))
    pads = list(attributes.get("pads", [0] * 2 * rank))
    spans = [step * (length - 1) + 1 for step, length in zip(dilations, patch, strict=True)]
    padded = [extent + before + after for extent, before, after in zip(image, pads[:rank], pads[rank:], strict=True)]
    counts = [(extent - span) // step + 1 for extent, span, step in zip(padded, spans, strides, strict=True)]
    batch = extents_of(data)[0]
    rows, columns = static_extents(extents_of(data)[1:])
    if columns != math.prod(counts) or rows % math.prod(patch):
        raise ValueError(f"{columns} patches of {rows} elements don't make an image of {image}")
    channels = rows // math.prod(patch)
    apart = bb.emit(R.reshape(data, [batch, channels, *patch, *counts]))
    if spans == strides == patch and not any(pads) and image == [n * k for n, k in zip(counts, patch, strict=True)]:
        order = chain.from_iterable((2 + rank + axis, 2 + axis) for axis in range(rank))
        return R.reshape(bb.emit(R.permute_dims(apart, [0, 1, *order])), [batch, channels, *image])

    def sums(patches: te.Tensor) -> te.Tensor:
        inside = [te.reduce_axis((0, length), f"k{axis}") for axis, length in enumerate(patch)]

        def element(sample: tirx.Var, channel: tirx.Var, *place: tirx.Var) -> tirx.PrimExpr:
            from_first = [at + pads[axis] - inside[axis] * dilations[axis] for axis, at in enumerate(place)]
            places = [tirx.floordiv(distance, step) for distance, step in zip(from_first, strides, strict=True)]
            tests = [
                test
                for distance, step, at, count in zip(from_first, strides, places, counts, strict=True)
                for test in (tirx.floormod(distance, step) == 0, at >= 0, at < count)
            ]
            value = patches(sample, channel, *inside, *places)
            return te.sum(tirx.if_then_else(tirx.all(*tests), value, tirx.const(0, dtype_of(data))), axis=inside)

        return te.compute((patches.shape[0], channels, *image), element, name="col2im")

    return bb.emit_te(sums, apart, primfunc_name_hint="col2im")
