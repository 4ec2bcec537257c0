"""Builders of small ONNX models: tiny transformers and the reductions of the paper. They need onnx and NumPy alone."""
