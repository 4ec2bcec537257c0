"""ONNX to ONNX: one spelling for what follows."""
