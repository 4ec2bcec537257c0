"""Values of which equal ones are one object, so that they compare at once, however deep they are."""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary


class Interned(type):
    """Metaclass of immutable values with a hashable ``identity``, which says all that there is to one.

    A call of the class gives the equal value that is alive already, if there is one. Trees whose nodes are such values
    share their equal parts: comparing two of them, which otherwise may take time exponential in their depth, is
    comparing their roots. Between threads an equal value may come to be twice; it still has to compare equal.
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        return _ALIVE.setdefault((cls, made.identity), made)


_ALIVE: WeakValueDictionary[Any, Any] = WeakValueDictionary()
