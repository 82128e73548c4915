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

    async def tee():
        stream = graph.astream(given, config, **{**about, "subgraphs": True, "stream_mode": modes})
        async with contextlib.aclosing(stream):
            async for namespace, mode, data in stream:
                if mode in asked and (with_subgraphs or not (namespace or _is_of_another(mode, data))):
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


def _is_of_another(mode: str, data) -> bool:
    """Words of a graph that a node has called with a thread of its own: with subgraphs, LangGraph tells them without a namespace."""
    about = data[1] if mode == "messages" and isinstance(data[1], dict) else {}
    return about.get("checkpoint_ns", "") not in ("", about.get("langgraph_checkpoint_ns"))


def _made(name: str, payload, namespace) -> tuple:
    return (), MODE, {"name": name, "payload": payload, "namespace": list(namespace)}
