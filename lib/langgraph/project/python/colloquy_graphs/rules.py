# The Auth object of LangGraph's SDK that langgraph.json names: who calls, and what a caller may do. The gateway asks, and enforces.
import asyncio
import inspect

from .pipe import LoadError
from .plain import error_text, plain
from .user import User

# What `authenticate` may take, by name, from the head of a request: its body is not read before the caller is known.
_PARAMETERS = ("request", "path", "method", "scope", "path_params", "query_params", "headers", "authorization")
# The most specific first; an event is asked about with one handler alone.
_PLACES = (lambda of: (of["resource"], of["action"]), lambda of: (of["resource"], "*"), lambda of: ("*", of["action"]), lambda of: ("*", "*"))


class Headers(dict):
    """Of bytes, as LangGraph's server gives them; found by texts too, in any case."""

    def __getitem__(self, name):
        return super().__getitem__(name) if isinstance(name, bytes) else super().__getitem__(_header(name)).decode("latin-1")

    def get(self, name, default=None):
        try:
            return self[name]
        except KeyError:
            return default

    def __contains__(self, name):
        return super().__contains__(name if isinstance(name, bytes) else _header(name))


class Rules:
    """Each coroutine answers a question of the gateway: with a result, or with the refusal of a rule."""

    def __init__(self, auth) -> None:
        if not hasattr(auth, "_handlers") or not hasattr(auth, "_global_handlers"):
            raise LoadError("What auth.path names is not an Auth object of langgraph_sdk")
        self._auth = auth
        self._wanted = _wanted(auth._authenticate_handler) if self.authenticates else ()

    @property
    def authenticates(self) -> bool:
        return getattr(self._auth, "_authenticate_handler", None) is not None

    async def authenticate(self, head: dict) -> dict:
        given = {name: _argument(name, head) for name in self._wanted}
        return await _answered(self._auth._authenticate_handler, given, _told)

    async def authorize(self, question: dict) -> dict:
        """Rules change the value in place: it goes back with their answer."""
        handler = self._handler(question)
        if handler is None:
            return {"result": None}
        value = question["value"]
        answer = await _answered(handler, {"ctx": _context(question), "value": value}, plain)
        return {**answer, "value": plain(value)}

    def _handler(self, question: dict):
        for place in _PLACES:
            found = self._auth._handlers.get(place(question))
            if found:
                return found[-1]
        return self._auth._global_handlers[-1] if self._auth._global_handlers else None


async def _answered(handler, given: dict, shown) -> dict:
    try:
        if inspect.iscoroutinefunction(handler):
            found = await handler(**given)
        else:
            # One that blocks holds up nobody else.
            found = await asyncio.to_thread(handler, **given)
            found = await found if inspect.isawaitable(found) else found
    except Exception as error:
        status = getattr(error, "status_code", None)
        if not isinstance(status, int):
            raise
        headers = {str(name): str(one) for name, one in dict(getattr(error, "headers", None) or {}).items()}
        return {"refused": {"status": status, "message": error_text(error, lambda one: str(getattr(one, "detail", one))), "headers": headers}}
    return {"result": shown(found)}


def _told(user):
    """A text, or an object with an identity, whose members are attributes or keys."""
    if user is None or isinstance(user, str):
        return user
    found = plain(user)
    if isinstance(found, dict) and "identity" in found:
        return found
    names = ("identity", "display_name", "is_authenticated", "permissions")
    about = {**(vars(user) if hasattr(user, "__dict__") else {}), **{name: getattr(user, name) for name in names if hasattr(user, name)}}
    return plain({name: one for name, one in about.items() if not name.startswith("_") and not callable(one)})


def _context(question: dict):
    from langgraph_sdk.auth.types import AuthContext

    user = User(question["user"])
    about = {name: question[name] for name in ("permissions", "resource", "action")}
    return AuthContext(user=user, **about)


def _wanted(handler) -> tuple:
    parameters = inspect.signature(handler).parameters.values()
    unknown = [one.name for one in parameters if one.name not in _PARAMETERS and one.default is one.empty and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]
    if unknown:
        raise LoadError(f"authenticate of auth.path takes {', '.join(unknown)}, and is given any of {', '.join(_PARAMETERS)}")
    return tuple(one.name for one in parameters if one.name in _PARAMETERS)


def _argument(name: str, head: dict):
    scope = scope_of(head)
    if name == "request":
        return _request(scope)
    if name == "scope":
        return scope
    if name == "headers":
        return Headers(scope["headers"])
    if name == "authorization":
        return dict(head["headers"]).get("authorization")
    if name == "query_params":
        from urllib.parse import parse_qsl

        return dict(parse_qsl(head["query"], keep_blank_values=True))
    return {} if name == "path_params" else head[name]


def scope_of(head: dict) -> dict:
    """The head of a request for ASGI."""
    from urllib.parse import unquote

    host, _, port = head["host"].partition(":")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": head["method"],
        "scheme": "http",
        "path": unquote(head["path"]),
        "raw_path": head["path"].encode(),
        "query_string": head["query"].encode(),
        "root_path": "",
        "headers": [(_header(name), value.encode("latin-1", "replace")) for name, value in head["headers"]],
        "client": None,
        "server": (host, int(port) if port.isdigit() else 80),
    }


def _request(scope: dict):
    try:
        from starlette.requests import Request
    except ImportError:
        raise RuntimeError("authenticate takes a request, which is one of starlette's: install starlette, or take headers") from None
    return Request(scope)


def _header(name: str) -> bytes:
    return name.lower().encode("latin-1", "replace")
