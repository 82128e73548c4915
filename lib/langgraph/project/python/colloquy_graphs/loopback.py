# LangGraph's client without a URL (`get_client()`): where it looks for LangGraph's own server in its process it finds this, which passes
# each call on to the gateway, as whoever the code works for. Streams come as they come where the client's transport passes them on:
# that of httpx has an answer whole.
import contextvars
import sys
import types

from .output import RUN

# The request that the app of the project answers.
REQUEST: contextvars.ContextVar = contextvars.ContextVar("colloquy_request", default=None)
_SERVER = "langgraph_api.server"
# What is said of this connection and not of the next.
_OWN = (b"host", b"content-length", b"connection", b"accept-encoding", b"transfer-encoding")


def register(channel) -> None:
    module = types.ModuleType(_SERVER)
    module.app = _Loopback(channel)
    sys.modules[_SERVER] = module


class _Loopback:
    def __init__(self, channel) -> None:
        self._channel = channel

    async def __call__(self, scope, receive, send) -> None:
        # The client depends on it.
        import httpx

        body = await whole(receive)
        opened = await self._channel.acall("openDoor", RUN.get() or REQUEST.get())
        url, token = opened["url"], opened["token"]
        headers = [one for one in scope["headers"] if one[0].lower() not in _OWN]
        # An explicit credential is kept.
        if token is not None and not any(name.lower() == b"authorization" for name, _ in headers):
            headers.append((b"authorization", f"Bearer {token}".encode()))
        query = scope["query_string"].decode()
        place = f"{url}{scope['raw_path'].decode()}{'?' if query else ''}{query}"
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=None) as client:
                async with client.stream(scope["method"], place, headers=headers, content=body) as answer:
                    shown = [(name.lower(), one) for name, one in answer.headers.raw if name.lower() not in (*_OWN, b"content-encoding")]
                    await send({"type": "http.response.start", "status": answer.status_code, "headers": shown})
                    async for part in answer.aiter_bytes():
                        await send({"type": "http.response.body", "body": part, "more_body": True})
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            if token is not None:
                await self._channel.acall("closeDoor", token)


async def whole(receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)
