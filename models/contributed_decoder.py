"""A small decoder with a past, in the operators that onnxruntime-genai's exporter writes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

WIDTH, HEADS, GROUPS, SIZE, INNER, WORDS, LAYERS, PLACES = 64, 4, 2, 16, 96, 50, 2, 128

DOMAIN = "com.microsoft"


class _Writer:
    """Nodes and constants being written."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self._random = np.random.default_rng(0)

    def add(
        self, operator: str, inputs: Sequence[str], outputs: Sequence[str], domain: str = "", **attributes: object
    ) -> str:
        """One more node; its first output."""
        name = f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, outputs, name=name, domain=domain, **attributes))
        return outputs[0]

    def constant(self, name: str, array: np.ndarray) -> str:
        self.constants[name] = array
        return name

    def linear(self, value: str, name: str, rows: int, columns: int) -> str:
        """A product with a weight of 4 bits in blocks of 32."""
        blocks = -(-rows // 32)
        weight = self.constant(f"{name}.w", self._random.integers(0, 256, (columns, blocks, 16)).astype(np.uint8))
        scales = self.constant(f"{name}.s", (0.005 + 0.02 * self._random.random((columns, blocks))).astype(np.float32))
        sizes = {"K": rows, "N": columns, "bits": 4, "block_size": 32}
        return self.add("MatMulNBits", [value, weight, scales], [name], DOMAIN, **sizes)

    def skip(self, total: str, value: str, name: str) -> tuple[str, str]:
        """The norm of the sum of two values, and that sum."""
        scale = self.constant(f"{name}.g", np.ones(WIDTH, np.float32))
        outputs = [f"{name}.normal", "", "", f"{name}.total"]
        self.add("SkipSimplifiedLayerNormalization", [total, value, scale], outputs, DOMAIN, epsilon=1e-5)
        return outputs[0], outputs[3]


def decoder() -> ModelProto:
    """Its sizes are open: those of the batch, of the new words, of the past, and of both together."""
    write = _Writer()
    _lengths(write)
    angles = np.arange(PLACES)[:, None] / 10000 ** (2 * np.arange(SIZE // 2) / SIZE)
    for name, array in (("cos", np.cos(angles)), ("sin", np.sin(angles))):
        write.constant(name, array.astype(np.float32))
    words = write.constant("words", np.random.default_rng(1).standard_normal((WORDS, WIDTH)).astype(np.float32))
    total = write.add("Gather", [words, "input_ids"], ["embedded"])
    scale = write.constant("first.g", np.ones(WIDTH, np.float32))
    normal = write.add("SimplifiedLayerNormalization", [total, scale], ["first"], axis=-1, epsilon=1e-5, stash_type=1)
    for layer in range(LAYERS):
        normal, total = write.skip(total, _attention(write, normal, layer), f"{layer}.middle")
        normal, total = write.skip(total, _gated(write, normal, layer), f"{layer}.end")
    write.linear(normal, "logits", WIDTH, WORDS)
    return _model(write)


def _lengths(write: _Writer) -> None:
    """``last``: the place of each row's last key. ``all``: keys of the longest row."""
    one = write.constant("one", np.array([1]))
    write.add("ReduceSum", ["attention_mask", one], ["counts"], keepdims=0)
    write.add("Cast", [write.add("Sub", ["counts", one], ["places"])], ["last"], to=TensorProto.INT32)
    shape = write.add("Shape", ["attention_mask"], ["shape"])
    length = write.add("Gather", [shape, write.constant("second", np.array(1))], ["length"])
    write.add("Cast", [length], ["all"], to=TensorProto.INT32)


def _attention(write: _Writer, normal: str, layer: int) -> str:
    widths = {"q": HEADS * SIZE, "k": GROUPS * SIZE, "v": GROUPS * SIZE}
    operands = [write.linear(normal, f"{layer}.{name}", WIDTH, width) for name, width in widths.items()]
    past, present = ([f"{when}.{layer}.{part}" for part in ("key", "value")] for when in ("past", "present"))
    inputs = [*operands, *past, "last", "all", "cos", "sin"]
    attributes = {"num_heads": HEADS, "kv_num_heads": GROUPS, "do_rotary": 1, "local_window_size": -1, "softcap": 0.0}
    context = write.add("GroupQueryAttention", inputs, [f"{layer}.context", *present], DOMAIN, **attributes)
    return write.linear(context, f"{layer}.projected", HEADS * SIZE, WIDTH)


def _gated(write: _Writer, normal: str, layer: int) -> str:
    gate, value = (write.linear(normal, f"{layer}.{name}", WIDTH, INNER) for name in ("gate", "value"))
    open_gate = write.add("QuickGelu", [gate], [f"{layer}.open"], DOMAIN, alpha=1.0)
    return write.linear(write.add("Mul", [open_gate, value], [f"{layer}.gated"]), f"{layer}.down", INNER, WIDTH)


def _model(write: _Writer) -> ModelProto:
    info, number = helper.make_tensor_value_info, TensorProto.FLOAT
    inputs = [
        info("input_ids", TensorProto.INT64, ["batch", "new"]),
        info("attention_mask", TensorProto.INT64, ["batch", "all"]),
    ]
    outputs = [info("logits", number, ["batch", "new", WORDS])]
    for name in (f"{layer}.{part}" for layer in range(LAYERS) for part in ("key", "value")):
        inputs.append(info(f"past.{name}", number, ["batch", GROUPS, "past", SIZE]))
        outputs.append(info(f"present.{name}", number, ["batch", GROUPS, "room", SIZE]))
    tensors = [numpy_helper.from_array(array, name) for name, array in write.constants.items()]
    graph = helper.make_graph(write.nodes, "decoder", inputs, outputs, tensors)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)], ir_version=10
    )
