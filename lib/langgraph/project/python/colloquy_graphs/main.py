# Entry point of the process that runs one project's graphs. Its only connection is a pipe to the gateway: when that is closed, it ends.
import asyncio
import faulthandler
import os
import signal
import sys
import time

from . import loopback, output
from .pipe import Channel, LoadError
from .project import Project, check_versions

_PIPE = 3
_BEAT_S = 1.0


def main() -> None:
    os.set_inheritable(_PIPE, False)
    _end_with_parent()
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    channel = Channel(_PIPE, loop, lambda: os._exit(0))
    channel.handlers = {"open": lambda about: _open(channel, about), "ping": _pong}
    channel.immediate = {"exit": lambda: os._exit(0)}
    # Standard streams as they are: the stack of a blocked loop is written without Python's help.
    stderr = sys.stderr
    output.capture(channel)
    loopback.register(channel)
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

    # Of the project's own modules, and not of ours.
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    project = Project(about["folder"], about["dependencies"])
    began = time.monotonic()
    if about["graphs"]:
        from .graphs import Graphs

        for one in about["graphs"]:
            project.load(one["id"], one["place"], one["name"])
        channel.handlers.update(Graphs(channel, project).handlers())
    front = await _front(channel, project, about)
    # Only now: an import may take long.
    _blocked_s = about["blockedMs"] / 1000
    return {**versions, **front, "pid": os.getpid(), "loadMs": round((time.monotonic() - began) * 1000)}


async def _front(channel: Channel, project: Project, about: dict) -> dict:
    """The rules and the app of the project, in a process that has no graphs."""
    found: dict = {}
    if about.get("auth"):
        from .rules import Rules

        rules = Rules(project.symbol("auth.path", **about["auth"]))
        channel.handlers.update(authenticate=rules.authenticate, authorize=rules.authorize)
        found["authenticates"] = rules.authenticates
    if about.get("app"):
        from .app import App

        app = App(channel, project.symbol("http.app", **about["app"]))
        await app.start()
        channel.handlers.update(request=app.request, leave=app.leave, stop=app.stop)
        found["routes"] = app.routes()
    return found


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
