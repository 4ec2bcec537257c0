"""From an ONNX file to TVM's lowered graph. Importing this package imports neither onnx nor TVM."""

from redfuser.frontend.lowering import LoweredModel, lower, lower_prepared, prepare
from redfuser.frontend.model import LoadLimits, OnnxModel, PreparedModel
from redfuser.frontend.reading.isolation import prepare_file
from redfuser.frontend.reading.loader import load_model

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
