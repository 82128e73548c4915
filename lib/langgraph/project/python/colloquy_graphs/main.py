# Entry point of the process that runs one project's graphs. Its only connection is a pipe to the gateway: when that is closed, it ends.
import asyncio
import faulthandler
import os
import signal
import sys
import time

from . import output
from .pipe import Channel, LoadError
from .project import Project, check_versions

_PIPE = 3
_BEAT_S = 1.0


def main() -> None:
    os.set_inheritable(_PIPE, False)
    # The gateway decides when this process ends: a terminal sends both the signal.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent()
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    channel = Channel(_PIPE, loop, lambda: os._exit(0))
    channel.handlers = {"open": lambda about: _open(channel, about), "ping": _pong}
    channel.immediate = {"exit": lambda: os._exit(0)}
    # Standard streams as they are: the stack of a blocked loop is written without Python's help.
    stderr = sys.stderr
    output.capture(channel)
    channel.start()
    loop.call_soon(_beat, loop, stderr)
    while True:
        try:
            loop.run_forever()
            return
        except BaseException:
            # A task was left by SystemExit or the like, which asyncio passes on: its own call has failed with it already.
            continue


async def _pong() -> None:
    """Answers while the event loop is not blocked."""


_blocked_s = 0.0


def _beat(loop, stderr) -> None:
    """Puts off the report of a blocked loop: a thread without the interpreter's lock writes all stacks when nobody does."""
    if _blocked_s > 0:
        faulthandler.dump_traceback_later(_blocked_s, file=stderr.fileno())
    loop.call_later(_BEAT_S, _beat, loop, stderr)


async def _open(channel: Channel, about: dict) -> dict:
    """Loads the project. The gateway calls it once, first."""
    global _blocked_s
    versions = check_versions()
    from .graphs import Graphs

    # Of the project's own modules, and not of ours.
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    project = Project(about["folder"], about["dependencies"])
    began = time.monotonic()
    found = [project.load(one["id"], one["place"], one["name"]) for one in about["graphs"]]
    graphs = Graphs(channel, project)
    channel.handlers.update(graphs.handlers())
    # Only now: an import may take long.
    _blocked_s = about["blockedMs"] / 1000
    return {**versions, "pid": os.getpid(), "graphs": found, "loadMs": round((time.monotonic() - began) * 1000)}


def _end_with_parent() -> None:
    """Where the kernel can: a graph that never yields would not see the pipe closed."""
    if not sys.platform.startswith("linux"):
        return
    try:
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    except Exception:
        pass


__all__ = ["LoadError", "main"]
