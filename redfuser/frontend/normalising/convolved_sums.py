"""The sums of a convolution of bytes as products of bytes, or channel by channel, and what becomes of them.

Zero points and the bias come to one constant of int32 for each kernel. Where the result is quantised again, sums are
multiplied by the quotient of the scales, in float32, as ONNX Runtime does.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from redfuser.frontend.normalising.convolved import Convolved
from redfuser.frontend.normalising.definition import Definition
from redfuser.frontend.normalising.dequantised import ByteValues
from redfuser.frontend.normalising.windows import Shown, Window

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

#: The largest number of int32, and the most that a product of two bytes less their zero points comes to.
_MOST, _TERM = (1 << 31) - 1, 255**2


class ConvolvedSums:
    """Writes one convolution, channels last.

    Args:
        write: what stands in for the convolution.
        convolved: the weight is a constant.
        kind: element type of the image.
    """

    def __init__(self, write: Definition, convolved: Convolved, values: ByteValues, window: Window, kind: int) -> None:
        from onnx import TensorProto

        self.write = write
        self.convolved = convolved
        self.values = values
        self.window = window
        self.kind = kind
        self.real = int(TensorProto.FLOAT)
        self.zero = convolved.image.zero
        self.known_zero = 0 if not self.zero else None
        if self.zero in values.constants:
            self.known_zero = int(values.array(self.zero).reshape(-1)[0])

    def fits(self) -> bool:
        """Whether int32 holds every sum, and the multipliers are numbers."""
        import numpy as np

        bias, terms = self.convolved.bias, prod(self.values.constants[self.convolved.weight.data].dims[1:])
        most = 0 if bias is None else int(np.abs(bias.astype(np.int64)).max(initial=0))
        numbers = not self.convolved.image.scale or bool(np.isfinite(self._multiplier()).all())
        return terms * _TERM + most <= _MOST and numbers

    def product(self) -> str:
        """As one product of bytes of each place's patch with all kernels."""
        rows, weight = self._shown().patches(), self.convolved.weight
        less = self._less_zero()
        narrow = less.astype("int8")
        if (narrow == less).all():
            moved = [self.zero] if self.known_zero is None else []
            sums = self.write.add("MatMulInteger", rows, self.write.tensor(narrow), *moved)
            return self._finished(self._with_offset(sums, self._offset(less)), whole=True)
        zero = self.zero or self.write.tensor(self._no_zero())
        sums = self.write.add("MatMulInteger", rows, self.write.tensor(self._matrix()), zero, weight.zero)
        bias = 0 if self.convolved.bias is None else self.convolved.bias
        return self._finished(self._with_offset(sums, bias + 0 * less.sum(0)), whole=True)

    def channelwise(self) -> str:
        """Of each channel by itself; the image's zero point is known."""
        import numpy as np
        from onnx import TensorProto

        write, less = self.write, self._less_zero()
        narrow = less.astype("int8")
        if self.kind == TensorProto.UINT8 and (narrow == less).all():
            # Processors add up products of unsigned and signed bytes.
            whole = int(TensorProto.INT32)
            windows, weight = self._shown().windows(), narrow.reshape(*self.window.sizes, -1)
            terms = write.add(
                "Mul", write.add("Cast", windows, to=whole), write.add("Cast", write.tensor(weight), to=whole)
            )
            rank = len(self.window.sizes)
            sums = write.add("ReduceSum", terms, write.integers(*range(-1 - rank, -1)), keepdims=0)
            return self._finished(self._with_offset(sums, self._offset(less)), whole=True)
        products = [
            write.add("Mul", write.add("Cast", element, to=self.real), write.tensor(row))
            for element, row in zip(self._shown().elements(), less.astype(np.float32), strict=True)
        ]
        sums = write.total(*products)
        return self._finished(self._with_offset(sums, self._offset(less), np.float32), whole=False)

    def _finished(self, sums: str, whole: bool) -> str:
        """The result.

        Args:
            whole: whether sums are int32; else they are whole numbers in float32.
        """
        from onnx import TensorProto

        write, convolved = self.write, self.convolved
        if not convolved.image.scale:
            return sums if whole else write.add("Cast", sums, to=int(TensorProto.INT32))
        value = write.add("Cast", sums, to=self.real) if whole else sums
        value = write.add("Mul", value, write.tensor(self._multiplier()))
        if not convolved.scale:
            return write.add("Add", value, convolved.real_bias) if convolved.real_bias else value
        step = self.values.array(convolved.scale).reshape(-1)
        if convolved.real_bias:
            value = write.add("Add", value, write.tensor(self.values.array(convolved.real_bias) / step))
        for cut in convolved.tail[:-1]:
            bounds = [self._in_steps(name, step) if name else "" for name in list(cut.input)[1:]]
            value = write.add(cut.op_type, value, *bounds)
        return write.add("QuantizeLinear", value, write.number(1, self.real), convolved.zero)

    def _in_steps(self, name: str, step: Array) -> str:
        return self.write.tensor((self.values.array(name).reshape(-1) / step).reshape(()))

    def _multiplier(self) -> Array:
        """What makes results of sums, one number or one for each kernel."""
        import numpy as np

        convolved = self.convolved
        with np.errstate(over="ignore"):
            scale = self.values.array(convolved.image.scale).reshape(-1) * self.values.array(
                convolved.weight.scale
            ).reshape(-1)
            return scale / self.values.array(convolved.scale).reshape(-1) if convolved.scale else scale

    def _with_offset(self, sums: str, offset: Array, kind: Any = "int32") -> str:
        return self.write.add("Add", sums, self.write.tensor(offset.astype(kind))) if offset.any() else sums

    def _offset(self, less: Array) -> Array:
        """What every sum of a kernel lacks: the bias, less what the image's zero point brought in."""
        bias = 0 if self.convolved.bias is None else self.convolved.bias.astype("int64")
        offset: Array = bias - (self.known_zero or 0) * less.sum(0)
        return offset

    def _matrix(self) -> Array:
        """Kernels as columns, their elements in the order of patches."""
        kernels = self.values.array(self.convolved.weight.data)
        matrix: Array = kernels.transpose(*range(2, kernels.ndim), 1, 0).reshape(-1, kernels.shape[0]).copy()
        return matrix

    def _less_zero(self) -> Array:
        """The same less their zero points, in int64."""
        zero = self.convolved.weight.zero
        matrix = self._matrix().astype("int64")
        return matrix - self.values.array(zero).reshape(-1).astype("int64") if zero else matrix

    def _shown(self) -> Shown:
        import numpy as np

        scalar = self.write.tensor(np.zeros(0, np.int64))
        padding = self.write.add("Reshape", self.zero, scalar) if self.zero else ""
        return Shown(self.write, self.convolved.image.data, self.window, padding)

    def _no_zero(self) -> Array:
        import numpy as np
        from onnx import helper

        return np.zeros((), helper.tensor_dtype_to_np_dtype(self.kind))
