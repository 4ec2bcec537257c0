"""Operators of the domain com.microsoft, each by its definition in operators of ONNX.

ONNX knows none of them, so neither their types nor their meaning is known to what follows; ONNX Runtime computes most
of them in float32 alone. The definition serves the compile and the float64 oracle; ONNX Runtime's own kernels stay
the independent opinion.

Source: the operators' schemas in ONNX Runtime (``onnxruntime/docs/ContribOperators.md``).
"""
