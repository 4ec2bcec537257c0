"""``python -m tests.emulator.kernels.generate`` writes the emitted CUDA and the launch data of every program.

It needs TileLang 0.1.15, but no GPU and no CUDA toolkit; the tests need only what it writes.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from redfuser.algebra import derive
from redfuser.cascade.model import Cascade
from redfuser.codegen.gpu import emit
from redfuser.codegen.gpu.tools.service import load_script
from redfuser.codegen.gpu.value import Argument, TensorMap
from redfuser.expr import Tensor
from redfuser.records import encode, to_text
from redfuser.tile import Schedule, build
from tests.emulator.cases import Record
from tests.emulator.kernels import programs
from tests.emulator.launch import Launch
from tests.emulator.source import kernels
from tests.selections import routing, selection

FOLDER = Path(__file__).resolve().parent
HOPPER_TILE = {"tile": (128, 128), "threads": 256}
INTEGERS = {"dtype": "int8", "out": "int32", "sums": "int32", "b_transposed": True}

# Name of the files: (architecture, program).
CASES: dict[str, tuple[str, Callable[[], Any]]] = {
    "attention_sm80": ("sm_80", lambda: programs.attention(100, 150, 64)),
    "attention_sm86_bfloat16": ("sm_86", lambda: programs.attention(64, 100, 128, dtype="bfloat16")),
    "attention_sm90": ("sm_90a", lambda: programs.attention(128, 512, 128, **HOPPER_TILE)),
    "attention_sm90_ragged": ("sm_90a", lambda: programs.attention(200, 250, 80, tile=(128, 64), threads=256)),
    "split_attention_sm80": ("sm_80", lambda: programs.split_attention(1, 64, 256, 64, 2)),
    "split_attention_sm90": ("sm_90a", lambda: programs.split_attention(1, 64, 256, 64, 2)),
    "product_sm80_int8": (
        "sm_80",
        lambda: programs.product(64, 64, 128, **INTEGERS, tile=(64, 64, 64)),
    ),
    "product_sm86_tf32": ("sm_86", lambda: programs.product(64, 64, 64, dtype="float32", tile=(64, 64, 32))),
    "product_sm89_e4m3": (
        "sm_89",
        lambda: programs.product(64, 64, 128, dtype="float8_e4m3fn", b_transposed=True, tile=(64, 64, 64)),
    ),
    "product_sm90": ("sm_90a", lambda: programs.product(128, 256, 256)),
    "product_sm90_transposed": ("sm_90a", lambda: programs.product(128, 128, 128, a_transposed=True, dtype="bfloat16")),
    "product_sm90_staged": ("sm_90a", lambda: programs.product(200, 136, 264, out="float16", staged=True)),
    "product_sm90_narrow": ("sm_90a", lambda: programs.product(128, 128, 64, b_transposed=True, tile=(128, 128, 16))),
    "product_sm90_int8": (
        "sm_90a",
        lambda: programs.product(128, 128, 256, **INTEGERS),
    ),
    "product_sm90_tf32": ("sm_90a", lambda: programs.product(128, 128, 64, dtype="float32", tile=(128, 128, 32))),
    "quantised_product_sm90": ("sm_90a", lambda: programs.quantised_product(64, 128, 128)),
    "layer_norm_sm80": ("sm_80", lambda: programs.layer_norm(6, 200)),
    "layer_norm_sm90": ("sm_90a", lambda: programs.layer_norm(6, 1000)),
    "column_sums_sm80": ("sm_80", lambda: programs.column_sums(70, 64)),
    "routing_sm80": ("sm_80", lambda: emitted(routing(21, 64, 6), Schedule("resident", (("l", 64), ("i", 8))))),
    "selection_sm86": ("sm_86", lambda: emitted(selection(21, 40, 5, "float16"), Schedule("resident", (("i", 4),)))),
    "routing_sm90": ("sm_90a", lambda: emitted(routing(21, 60, 6), Schedule("single-segment", (("l", 32), ("i", 8))))),
}


def emitted(cascade: Cascade, schedule: Schedule) -> Any:
    """The TileLang function of a program that is one kernel."""
    [script] = emit(build(cascade, derive(cascade), schedule))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{script.name}.py"
        path.write_text(script.text)
        return getattr(load_script(path), script.name)


def lower(program: Any, arch: str) -> tuple[Record, str]:
    """The launches and arrays of a program, and its CUDA source."""
    import tilelang
    from tilelang import tvm

    target = tvm.target.Target({"kind": "cuda", "arch": arch})
    with tvm.transform.PassContext(opt_level=3), target:
        lowered = tilelang.lower(program, target=target)
    buffers = [program.buffer_map[parameter] for parameter in program.params]
    arrays = tuple(Tensor(b.name, tuple(int(extent) for extent in b.shape), str(b.dtype)) for b in buffers)
    source = lowered.kernel_source
    return Record(arch, arrays, tuple(_launches(source, str(lowered.host_mod), arrays))), source


def _launches(source: str, host: str, arrays: tuple[Tensor, ...]) -> Iterator[Launch]:
    """What the host module calls, with constants for every extent."""
    values: dict[str, Any] = {a.name: Argument(a.name, a.dtype, a.shape, "input") for a in arrays}
    for function, texts in _packed_calls(host):
        if function == "__tvm_tensormap_create_tiled":
            _, data_type, rank, pointer, *rest = [_value(text, values) for text in texts]
            shape, strides, box, steps = (tuple(rest[i * rank : (i + 1) * rank]) for i in range(4))
            described = TensorMap(data_type, shape, strides[1:], box, steps, *rest[4 * rank :])
            values[texts[0]] = replace(pointer, tensor_map=described)
        else:
            yield _launch(source, function, [_value(text, values) for text in texts])


def _launch(source: str, kernel: str, values: list[Any]) -> Launch:
    """Extents follow the arguments: those of the grid that are used, then the block's, then dynamic shared memory."""
    count = len(kernels(source)[kernel])
    arguments = tuple(values[:count])
    extents = values[count:]
    body = source[source.index(f"{kernel}(", source.rindex("__global__", 0, source.rindex(f"{kernel}("))) :]
    shared = extents.pop() if "extern __shared__" in body.split("\n}")[0] else 0
    block, grid = extents[-3:], (*extents[:-3], 1, 1)
    return Launch(kernel, tuple(grid[:3]), tuple(block), shared, arguments)


def _packed_calls(text: str) -> Iterator[tuple[str, list[str]]]:
    """Name and arguments, as text, of the calls that matter here, in program order."""
    for match in re.finditer(r'T\.call_packed\("(\w+)", ', text):
        depth, start, arguments = 1, match.end(), []
        for i in range(match.end(), len(text)):
            depth += (text[i] in "([{") - (text[i] in ")]}")
            if (text[i] == "," and depth == 1) or depth == 0:
                arguments.append(text[start:i].strip())
                start = i + 1
            if depth == 0:
                break
        if match[1] != "__tvm_set_device":
            yield match[1], arguments


def _value(text: str, values: dict[str, Any]) -> Any:
    """A constant or an argument; the printer renames a clashing buffer ``X`` to ``X_1``."""
    if number := re.fullmatch(r"(?:T\.\w+\()?(-?\d+)\)?", text):
        return int(number[1])
    return values.get(text) or values.get(re.sub(r"_\d+$", "", text)) or text


def main() -> None:
    """Write every case."""
    for name, (arch, program) in CASES.items():
        record, source = lower(program(), arch)
        (FOLDER / f"{name}.cu").write_text(source)
        (FOLDER / f"{name}.json").write_text(to_text(encode(record)))
        print(name)


if __name__ == "__main__":
    main()
