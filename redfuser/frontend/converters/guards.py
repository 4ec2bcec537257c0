"""Uses of operators that TVM's stock converters accept but get wrong: refused, since wrong is worse than unsupported.

Each was found by running ONNX's own test cases.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax

from redfuser.frontend.converters.common import (
    Attributes,
    Inputs,
    constant,
    dtype_of,
    optional,
    output_type,
    shape_of,
)

#: Tables of constants may have this many.
MOST_ELEMENTS = 1 << 24


def _cast(inputs: Inputs, attributes: Attributes) -> str:
    target = output_type(attributes)
    return "saturate = 0" if target.startswith("float8") and not attributes.get("saturate", 1) else ""


def _conv_transpose(inputs: Inputs, attributes: Attributes) -> str:
    if any(step != 1 for step in attributes.get("dilations", ())):
        return "dilations"
    return "output_shape" if "output_shape" in attributes else ""


def _lp_pool(inputs: Inputs, attributes: Attributes) -> str:
    return "the sum of powers of negative numbers" if attributes.get("p", 2) % 2 or attributes.get("pads") else ""


def _mod(inputs: Inputs, attributes: Attributes) -> str:
    is_float = inputs[0] is not None and "float" in dtype_of(inputs[0])
    return "fmod = 0 of floating-point operands" if is_float and not attributes.get("fmod", 0) else ""


def _range(inputs: Inputs, attributes: Attributes) -> str:
    for value in inputs:
        if not isinstance(value, relax.PrimValue):  # of which the symbolic dimensions are
            constant(value, "how long a range is")
    if not all(isinstance(value, relax.Constant) for value in inputs):
        return ""
    start, limit, step = (constant(value, "a bound").item() for value in inputs)
    return "a table this long" if step and (limit - start) / step > MOST_ELEMENTS else ""


def _resize(inputs: Inputs, attributes: Attributes) -> str:
    if attributes.get("antialias", 0):
        return "antialias"
    mode = attributes.get("mode", b"nearest")
    if mode == b"cubic":
        return "mode cubic"
    data, scales = inputs[0], optional(inputs, 2)
    if data is None or scales is None or mode == b"nearest":
        return ""
    extents = [scale * extent for scale, extent in zip(constant(scales, "scales"), shape_of(data), strict=True)]
    return "" if all(abs(extent - round(extent)) < 1e-4 for extent in extents) else "scales that don't divide evenly"


def _roi_align(inputs: Inputs, attributes: Attributes) -> str:
    if attributes.get("mode", b"avg") == b"max":
        return "mode max"
    return "" if attributes.get("sampling_ratio", 0) > 0 else "sampling_ratio = 0, as many samples as a box is large,"


def _space_to_depth(inputs: Inputs, attributes: Attributes) -> str:
    return "mode CRD" if attributes.get("mode", b"DCR") == b"CRD" else ""


def _split(inputs: Inputs, attributes: Attributes) -> str:
    if (sizes := optional(inputs, 1)) is not None:
        constant(sizes, "how long the parts are")
    return ""


_GUARDS: dict[str, Callable[[Inputs, Attributes], str]] = {
    "Cast": _cast,
    "ConvTranspose": _conv_transpose,
    "LpPool": _lp_pool,
    "Mod": _mod,
    "Range": _range,
    "Resize": _resize,
    "RoiAlign": _roi_align,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
}


def refuse_wrong_use(operator: str, inputs: Inputs, attributes: Attributes) -> None:
    """Check a use of an operator of the default domain.

    Raises:
        NotImplementedError: TVM would get it wrong; says what about it.
        ValueError: an input has to be a constant and is none; says which.
    """
    what = _GUARDS[operator](inputs, attributes) if operator in _GUARDS else ""
    if what:
        raise NotImplementedError(f"{what} is not implemented")
