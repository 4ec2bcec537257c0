"""What a model's outputs should be: the graph in float64, and ONNX Runtime's results."""
