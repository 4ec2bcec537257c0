"""What no cascade took: matrix products, lone reductions, element-wise operations. Imports TVM: import it lazily."""

from __future__ import annotations

from redfuser.codegen.cpu.remainder.scheduling import Remainder

__all__ = ["Remainder"]
