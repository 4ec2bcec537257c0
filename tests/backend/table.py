"""How many of ONNX's node cases pass, by family, here and in ONNX Runtime: ``python -m tests.backend.table``."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from tests.backend.adapter import CompiledBackend
from tests.backend.cases import Run, cases, check, family_of

#: The newest operator set that ONNX Runtime has every operator of; it refuses some operators of later ones.
KNOWN_OPSET = 25


def run_compiled(model: ModelProto, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    return CompiledBackend.prepare(model).run(inputs)


def run_onnxruntime(model: ModelProto, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """By ONNX Runtime. What NumPy has no types for goes in as a constant, and out through a cast."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    reachable, feeds, kinds = _reachable(model, inputs)
    session = onnxruntime.InferenceSession(reachable.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [array.astype(kind) for array, kind in zip(session.run(None, feeds), kinds, strict=True)]


def _reachable(
    model: ModelProto, inputs: Sequence[np.ndarray]
) -> tuple[ModelProto, dict[str, np.ndarray], list[np.dtype]]:
    """The model with inputs and outputs of types that NumPy has; what to feed; the types of the original outputs."""
    result = ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    feeds = dict(zip([value.name for value in graph.input], inputs, strict=True))
    strange = {name: feeds.pop(name) for name in list(feeds) if feeds[name].dtype.isbuiltin != 1}
    kept = [value for value in graph.input if value.name not in strange]
    del graph.input[:]
    graph.input.extend(kept)
    graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in strange.items())
    kinds = [helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type) for value in graph.output]
    for value, kind in zip(graph.output, kinds, strict=True):
        if kind.isbuiltin != 1:
            graph.node.append(helper.make_node("Cast", [value.name], [f"{value.name}/cast"], to=TensorProto.FLOAT))
            value.name, value.type.tensor_type.elem_type = f"{value.name}/cast", TensorProto.FLOAT
    return result, feeds, kinds


def run_onnxruntime_relabelled(model: ModelProto, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """ONNX Runtime on the same graph, said to be of an operator set it knows."""
    older = ModelProto()
    older.CopyFrom(model)
    for opset in older.opset_import:
        opset.version = min(opset.version, KNOWN_OPSET)
    return run_onnxruntime(older, inputs)


RUNS: dict[str, Run] = {
    "redfuser": run_compiled,
    "ONNX Runtime": run_onnxruntime,
    "the same, relabelled": run_onnxruntime_relabelled,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a regular expression for names of cases")
    parser.add_argument("--without", action="append", default=[], choices=RUNS, help="leave a runtime out")
    parser.add_argument("-v", action="store_true", help="name what fails, and why")
    arguments = parser.parse_args()
    runs = {name: run for name, run in RUNS.items() if name not in arguments.without}
    passed: dict[str, Counter[str]] = {name: Counter() for name in ("cases", *runs)}
    for name, case in cases().items():
        if not re.search(arguments.only, name):
            continue
        passed["cases"][family_of(name)] += 1
        for runtime, run in runs.items():
            try:
                check(case, run)
                passed[runtime][family_of(name)] += 1
            except Exception as error:  # each runtime refuses with classes of its own
                if arguments.v:
                    print(
                        f"{runtime}: {name}: {type(error).__name__}: {' '.join(str(error).split())[:200]}", flush=True
                    )
    print("| family |", *(f"{name} |" for name in passed))
    print("|---|", *("---|" for _ in passed))
    for family in passed["cases"]:
        print(f"| {family} |", *(f"{counts[family]} |" for counts in passed.values()))
    print("| all |", *(f"{counts.total()} |" for counts in passed.values()))


if __name__ == "__main__":
    main()
