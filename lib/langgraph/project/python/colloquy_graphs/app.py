# The ASGI app that langgraph.json names (Starlette, FastAPI, or a bare one): a request comes over the pipe, and bodies stream both ways.
import asyncio
import base64
import itertools
import re
import types

from .loopback import REQUEST, whole
from .pipe import LoadError
from .rules import scope_of
from .user import User

_LIFESPAN_S = 60
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class App:
    def __init__(self, channel, app) -> None:
        if not callable(app):
            raise LoadError("What http.app names is no ASGI app")
        self._channel = channel
        self._app = app
        self._state: dict = {}
        self._asked: dict = {}
        self._lifespan = _Lifespan(app, self._state)
        self._router = getattr(app, "router", None)
        if hasattr(self._router, "middleware_stack"):
            # Inside of the app's middlewares: the gateway's routes, where the app declares none.
            self._routed, self._router.middleware_stack = self._router.middleware_stack, self._route

    async def start(self) -> None:
        await self._lifespan.start()

    async def stop(self) -> None:
        await self._lifespan.stop()

    def routes(self) -> dict:
        """What it declares. Without a router: nothing, and it is asked about all that is not the gateway's."""
        if not hasattr(self._router, "routes"):
            return {"isRouter": False, "isAround": False, "routes": []}
        found = [_route(one) for one in self._router.routes]
        is_around = bool(getattr(self._app, "user_middleware", None))
        return {"isRouter": True, "isAround": is_around, "routes": [one for one in found if one]}

    async def request(self, number: int, head: dict, user) -> None:
        REQUEST.set(number)
        asked = self._asked[number] = _Asked(self._channel, number, head["isDeclared"])
        scope = {**scope_of(head), "state": {**self._state}, "colloquy": asked}
        if user is not None:
            scope["user"] = User(user)
            scope["auth"] = types.SimpleNamespace(scopes=scope["user"].permissions)
        try:
            await self._app(scope, asked.receive, asked.send)
        finally:
            self._asked.pop(number, None)

    def leave(self, number: int) -> None:
        if number in self._asked:
            self._asked[number].gone.set()

    async def _route(self, scope, receive, send) -> None:
        if scope["type"] != "http" or scope["colloquy"].is_declared:
            return await self._routed(scope, receive, send)
        asked = scope["colloquy"]
        body = await whole(receive) if asked.is_read else None
        answer = await self._channel.acall("ours", asked.number, None if body is None else base64.b64encode(body).decode())
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer["headers"]]
        await send({"type": "http.response.start", "status": answer["status"], "headers": headers})
        await send({"type": "http.response.body", "body": answer["body"].encode()})


class _Asked:
    """One request: what the app receives and sends."""

    def __init__(self, channel, number: int, is_declared: bool) -> None:
        self._channel = channel
        self.number = number
        self.is_declared = is_declared
        self.gone = asyncio.Event()
        self.is_read = False
        self._is_whole = False

    async def receive(self) -> dict:
        if self._is_whole:
            await self.gone.wait()
            return {"type": "http.disconnect"}
        self.is_read = True
        data = await self._channel.acall("body", self.number)
        self._is_whole = data is None
        return {"type": "http.request", "body": base64.b64decode(data or ""), "more_body": not self._is_whole}

    async def send(self, message: dict) -> None:
        # As ASGI has it for servers whose client is gone.
        if self.gone.is_set():
            raise OSError("the client is gone")
        if message["type"] == "http.response.start":
            headers = [[bytes(name).decode("latin-1"), bytes(value).decode("latin-1")] for name, value in message.get("headers", ())]
            self._channel.send("head", self.number, message["status"], headers)
        elif message["type"] == "http.response.body":
            data = message.get("body", b"")
            more = message.get("more_body", False)
            # Answered when it has been written: an app is as slow as its client.
            if data or not more:
                await self._channel.acall("part", self.number, base64.b64encode(data).decode(), more)


class _Lifespan:
    """The app's start and end, in one task as its context managers require."""

    def __init__(self, app, state: dict) -> None:
        self._app = app
        self._state = state
        self._in: asyncio.Queue = asyncio.Queue()
        self._out: asyncio.Queue = asyncio.Queue()
        self._task: asyncio.Task | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run())
        answer = await self._said("startup")
        if answer is not None:
            raise LoadError(f"The app of http.app does not start: {answer}")

    async def stop(self) -> None:
        if self._task and not self._task.done():
            await self._said("shutdown")

    async def _said(self, what: str):
        """None: done, or the app has no lifespan. Otherwise why not."""
        self._in.put_nowait({"type": f"lifespan.{what}"})
        try:
            message = await asyncio.wait_for(self._out.get(), _LIFESPAN_S)
        except asyncio.TimeoutError:
            return f"its {what} has taken more than {_LIFESPAN_S} s"
        return message.get("message") or "it has failed" if message["type"].endswith("failed") else None

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self._state}
        try:
            await self._app(scope, self._in.get, self._out.put)
        except BaseException:
            # An app that knows no lifespan raises.
            pass
        self._out.put_nowait({"type": "ended"})


def _route(route):
    """The pattern of a path and its methods; a mounted app has all."""
    pattern = getattr(getattr(route, "path_regex", None), "pattern", None)
    if pattern is None or type(route).__name__ == "WebSocketRoute" or type(route).__name__ == "APIWebSocketRoute":
        return None
    methods = getattr(route, "methods", None)
    return {"pattern": re.sub(r"\(\?P<", "(?<", pattern), "methods": sorted(methods) if methods else list(_METHODS)}
