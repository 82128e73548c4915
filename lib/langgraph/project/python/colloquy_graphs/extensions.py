# A graph's own stream transformers (`compile(transformers=...)`, or `stream_transformers` of its module): LangGraph's multiplexer runs them
# over the stream we read anyway. What they make is for readers of protocol v2. Messages they see as chunks.
import asyncio
import contextlib
import inspect
from collections import deque

# The mode of what they make, beside those of LangGraph.
MODE = "extension"
_PREFIX = "custom:"
# How long a final value may take after its run: a transformer that never gives it holds up nobody's end.
_FINAL_S = 10


def transformers_of(graph, module) -> list:
    """Factories of its transformers; none, mostly."""
    return [*(getattr(graph, "stream_transformers", None) or ()), *(getattr(module, "stream_transformers", None) or ())]


async def extended(graph, given, config, about: dict, factories: list):
    """The stream that `about` asks for, as (namespace, mode, data), and what transformers make of it."""
    from langgraph.stream._mux import StreamMux
    from langgraph.stream.run_stream import AsyncGraphRunStream
    from langgraph.stream.transformers import (
        LifecycleTransformer,
        MessagesTransformer,
        SubgraphTransformer,
        ValuesTransformer,
    )

    builtin = [ValuesTransformer, MessagesTransformer, LifecycleTransformer, SubgraphTransformer]
    mux = StreamMux(factories=[*builtin, *factories], is_async=True)
    asked, with_subgraphs = about["stream_mode"], about["subgraphs"]
    needed = {mode for one in mux._transformers for mode in getattr(one, "required_stream_modes", ())}
    modes = [*asked, *sorted(needed.difference(asked))]
    chunks: deque = deque()

    own = _own_messages() if not with_subgraphs and "messages" in asked else _All()
    config = {**config, "callbacks": own.callbacks}

    async def tee():
        stream = graph.astream(given, config, **{**about, "subgraphs": True, "stream_mode": modes})
        async with contextlib.aclosing(stream):
            async for namespace, mode, data in stream:
                if mode in asked and (with_subgraphs or not namespace) and (mode != "messages" or own.has(data[0])):
                    chunks.append((namespace, mode, data))
                yield {"type": mode, "ns": namespace, "data": data}

    async with AsyncGraphRunStream(tee(), mux) as run:
        async for event in run:
            while chunks:
                yield chunks.popleft()
            method, params = event["method"], event["params"]
            if method.startswith(_PREFIX):
                yield _made(method.removeprefix(_PREFIX), params["data"], params["namespace"])
        while chunks:
            yield chunks.popleft()
        for name, value in run.extensions.items():
            if inspect.isawaitable(value):
                with contextlib.suppress(Exception):
                    yield _made(name, await asyncio.wait_for(value, _FINAL_S), ())


class _All:
    """Every message is told."""

    callbacks: list = []

    def has(self, message) -> bool:
        return True


def _own_messages():
    """
    Which messages a stream without subgraphs would have: one with them has those of graphs too that a node calls with a thread of their
    own, without a namespace.
    """
    try:
        from langgraph.pregel._messages import StreamMessagesHandler
    except ImportError:
        # It is LangGraph's own, and may move: better words too many than none.
        return _All()

    class OwnMessages(StreamMessagesHandler):
        def __init__(self) -> None:
            # A graph that begins drops handlers that are for one graph alone: until this one's has begun, it is not.
            super().__init__(self._keep, True)
            self.callbacks = [self]
            self._kept: dict = {}

        def on_chain_start(self, *about, **more):
            self.subgraphs = False
            return super().on_chain_start(*about, **more)

        def _keep(self, chunk) -> None:
            message = chunk[2][0]
            self._kept[id(message)] = message

        def has(self, message) -> bool:
            return self._kept.pop(id(message), None) is not None

    return OwnMessages()


def _made(name: str, payload, namespace) -> tuple:
    return (), MODE, {"name": name, "payload": payload, "namespace": list(namespace)}
