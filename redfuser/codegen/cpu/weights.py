"""Large constants of a module as read-only data of its library. Imports TVM: import it lazily.

TVM's virtual machine reads its constants from a stream and copies them on the way, so that loading takes several times
their memory and each process has them for itself. Data of a library is mapped as it lies in the file: nothing is read
before it is needed, and all processes that run the module share one copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

#: Bytes from which a constant is worth a call that fetches it.
LEAST_BYTES = 1 << 16

#: Where each begins, in bytes: as TVM aligns its own tensors.
ALIGNMENT = 64

#: The function that ``main`` fetches them from, by number.
FETCH = "redfuser_weight"

#: C and C++, since modules may be linked by a compiler of either. Only x86-64 has a section for data that no code
#: reaches by a 32-bit distance; elsewhere 4 GB lie within reach.
_SOURCE = """\
#include <tvm/ffi/c_api.h>

#ifdef __x86_64__
#define SECTION ".section .lrodata, \\"al\\", @progbits\\n"
#else
#define SECTION ".section .rodata, \\"a\\", @progbits\\n"
#endif
__asm__(SECTION
    ".balign {alignment}\\n"
    ".hidden redfuser_weights\\n"
    ".globl redfuser_weights\\n"
    "redfuser_weights:\\n"
    ".incbin \\"{data}\\"\\n"
    ".text\\n");

extern char weights[] __asm__("redfuser_weights") __attribute__((visibility("hidden")));

static int64_t shapes[] = {{{shapes}}};

/* Tensors that own nothing: no deleter is called, which could be gone before they are. */
static DLManagedTensor tensors[] = {{
{tensors}
}};

#ifdef __cplusplus
extern "C"
#endif
int __tvm_ffi_{fetch}(void* self, const TVMFFIAny* arguments, int32_t count, TVMFFIAny* result) {{
  TVMFFIObjectHandle tensor = 0;
  int failed = TVMFFITensorFromDLPack(&tensors[arguments[0].v_int64], {alignment}, 1, &tensor);
  result->type_index = kTVMFFITensor;
  result->v_obj = (TVMFFIObject*)tensor;
  return failed;
}}
"""
_TENSOR = "  {{{{weights + {offset}, {{kDLCPU, 0}}, {rank}, {{{code}, {bits}, 1}}, shapes + {shape}, 0, 0}}, 0, 0}},"


@dataclass(frozen=True, eq=False)
class Weights:
    """Constants in the order of their numbers.

    Args:
        tensors: TVM's, on the processor.
    """

    tensors: tuple[Any, ...]

    def write(self, folder: Path) -> list[str]:
        """The C file that defines :data:`FETCH`, and beside it the data that it includes; none without weights."""
        if not self.tensors:
            return []
        data, source = folder / "weights.bin", folder / "weights.c"
        lines, shapes = [], [0]
        with data.open("wb") as file:
            for tensor in self.tensors:
                file.write(bytes(-file.tell() % ALIGNMENT))
                kind = {"code": int(tensor.dtype.type_code), "bits": int(tensor.dtype.bits)}
                place = {"offset": file.tell(), "shape": len(shapes), "rank": len(tensor.shape)}
                lines.append(_TENSOR.format(**place, **kind))
                shapes.extend(map(int, tensor.shape))
                file.write(tensor.numpy().reshape(-1).view("uint8"))  # NumPy's tofile doesn't say that a disk is full
        path = str(data).replace("\\", r"\\\\").replace('"', r"\\\"")
        parts = {"shapes": ", ".join(map(str, shapes)), "tensors": "\n".join(lines)}
        source.write_text(_SOURCE.format(data=path, alignment=ALIGNMENT, fetch=FETCH, **parts), encoding="utf-8")
        return [str(source)]

    def __str__(self) -> str:
        return "\n".join(f"{number}: {tensor.dtype}{list(tensor.shape)}" for number, tensor in enumerate(self.tensors))


def take_weights(module: tvm.IRModule) -> tuple[tvm.IRModule, Weights]:
    """The module with large constants fetched where a call needs them, and these constants."""
    taken = _Taken(module)
    for name, function in module.functions_items():
        if isinstance(function, relax.Function):
            taken.builder_.update_func(name, taken.visit_expr(function))
    return taken.builder_.get(), Weights(tuple(taken.numbers))


@mutator
class _Taken(PyExprMutator):
    """Fetches what :func:`take_weights` says."""

    def __init__(self, module: tvm.IRModule) -> None:
        super().__init__(module)
        self.numbers: dict[Any, int] = {}

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        arguments = [self._fetched(argument) for argument in call.args]
        return relax.Call(call.op, arguments, call.attrs, call.sinfo_args, call.span)

    def _fetched(self, argument: relax.Expr) -> relax.Expr:
        """Also of a constant within the tuple of a call of a kernel."""
        if isinstance(argument, relax.Tuple):
            return relax.Tuple([self._fetched(field) for field in argument.fields])
        if not isinstance(argument, relax.Constant) or _bytes(argument) < LEAST_BYTES:
            return argument
        number = self.numbers.setdefault(argument.data, len(self.numbers))
        fetch = relax.ExternFunc(FETCH)
        return self.builder_.emit(relax.op.call_pure_packed(fetch, number, sinfo_args=argument.struct_info))


def _bytes(constant: relax.Constant) -> int:
    elements = 1
    for extent in constant.data.shape:
        elements *= int(extent)
    return elements * tvm.DataType(constant.struct_info.dtype).bits // 8
