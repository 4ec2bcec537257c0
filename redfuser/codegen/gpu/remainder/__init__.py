"""What no cascade took, as GPU code that TVM generates: scheduled, then compiled to machine code."""

from redfuser.codegen.gpu.remainder.device import machine_code
from redfuser.codegen.gpu.remainder.scheduling import schedule_remainder

__all__ = ["machine_code", "schedule_remainder"]
