"""From an ONNX file to TVM's lowered graph. Importing this package imports neither onnx nor TVM."""

from redfuser.frontend.isolation import prepare_file
from redfuser.frontend.loader import load_model
from redfuser.frontend.lowering import LoweredModel, lower, lower_prepared, prepare
from redfuser.frontend.model import LoadLimits, OnnxModel, PreparedModel

__all__ = [
    "LoadLimits",
    "LoweredModel",
    "OnnxModel",
    "PreparedModel",
    "load_model",
    "lower",
    "lower_prepared",
    "prepare",
    "prepare_file",
]
