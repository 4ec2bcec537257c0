"""Whether ONNX Runtime loads a model, tried in a process of its own: some models in half precision end its process."""

from __future__ import annotations

import signal
import subprocess
import sys

#: Reads a model from stdin and loads it as :func:`redfuser.oracle.run.run_onnxruntime` does; leaves no core dump.
_LOAD = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
import onnxruntime
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
options.intra_op_num_threads = 1
onnxruntime.InferenceSession(sys.stdin.buffer.read(), options, providers=["CPUExecutionProvider"])
"""


def death_at_loading(content: bytes) -> str:
    """The signal that ONNX Runtime dies of when it loads a model, by name; empty where it lives.

    That it isn't installed, or raises an error, isn't told: whoever loads the model here meets that too.

    Args:
        content: the model, serialised.
    """
    command = [sys.executable, "-P", "-c", _LOAD]  # not what lies in the current folder by chance
    done = subprocess.run(command, input=content, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return signal.Signals(-done.returncode).name if done.returncode < 0 else ""
