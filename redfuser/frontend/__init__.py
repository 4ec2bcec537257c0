"""From an ONNX file to TVM's lowered graph. Importing this package imports neither onnx nor TVM."""

from redfuser.frontend.loader import load_model
from redfuser.frontend.lowering import LoweredModel, lower
from redfuser.frontend.model import LoadLimits, OnnxModel

__all__ = ["LoadLimits", "LoweredModel", "OnnxModel", "load_model", "lower"]
