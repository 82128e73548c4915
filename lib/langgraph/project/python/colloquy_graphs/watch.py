# Whether graphs block the event loop, which all runs of the process share: who does so is named in the gateway's log.
import asyncio
import contextlib
import time
from collections import Counter

_LOOK_S = 0.2
# Less is no reason for a line.
_BLOCKED_S = 1.0


class LoopWatch:
    def __init__(self, on_blocked) -> None:
        """`on_blocked` is called with the graphs that worked meanwhile, and for how many milliseconds."""
        self._on_blocked = on_blocked
        self._working: Counter = Counter()
        self._looked = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @contextlib.contextmanager
    def during(self, graph: str):
        """Watches while it runs."""
        self._working[graph] += 1
        if self._timer is None:
            self._wait()
        try:
            yield
        finally:
            # This graph may just have blocked the loop.
            self._look()
            self._working -= Counter([graph])

    def _wait(self) -> None:
        self._looked = time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._again)

    def _again(self) -> None:
        self._look()
        self._timer = None
        if self._working:
            self._wait()

    def _look(self) -> None:
        late = time.monotonic() - self._looked - _LOOK_S
        self._looked = time.monotonic()
        if late >= _BLOCKED_S:
            self._on_blocked([*self._working], round(late * 1000))
