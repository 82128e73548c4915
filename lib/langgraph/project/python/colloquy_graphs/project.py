# Loads the graphs of a langgraph.json: compiled, not compiled yet, or factories that make one per call. What cannot be loaded is one
# sentence with the file, the line, and what to run.
import asyncio
import contextlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import sys
import traceback
import typing

from .pipe import LoadError
from .plain import error_text

# Older ones have no RunControl and no third version of events.
_VERSION_MIN = (1, 2)
_PYTHON_MIN = (3, 11)


def check_versions() -> dict:
    """What this interpreter has. Raises LoadError with what to run."""
    if sys.version_info[:2] < _PYTHON_MIN:
        have, needed = (".".join(map(str, one)) for one in (sys.version_info[:3], _PYTHON_MIN))
        raise LoadError(f"{sys.executable} is Python {have}, and graphs need {needed} or later: set agent.python")
    needed = ".".join(map(str, _VERSION_MIN))
    install = f"run `{sys.executable} -m pip install 'langgraph>={needed},<2'`"
    try:
        version = importlib.metadata.version("langgraph")
    except importlib.metadata.PackageNotFoundError:
        raise LoadError(f"{sys.executable} has no langgraph: {install}, or set agent.python") from None
    if tuple(int(one) for one in version.split(".")[:2]) < _VERSION_MIN:
        raise LoadError(f"{sys.executable} has langgraph {version}, and {needed} or later is needed: {install}")
    return {"langgraph": version, "python": ".".join(map(str, sys.version_info[:3]))}


class Project:
    """The graphs by id; each is a graph, or a factory of graphs."""

    def __init__(self, folder: str, dependencies) -> None:
        self._folder = folder
        self._values: dict = {}
        # The module of each graph.
        self._modules: dict = {}
        for path in (*[os.path.join(folder, one) for one in dependencies if os.path.isdir(os.path.join(folder, one))], folder):
            path = os.path.abspath(path)
            if path not in sys.path:
                sys.path.insert(0, path)

    def load(self, graph_id: str, place: str, name: str) -> dict:
        """Imports a graph. Raises LoadError."""
        module = self._imported(graph_id, place)
        found = getattr(module, name, None)
        if found is None:
            raise LoadError(f"{place} has no {name}, which graph {graph_id} names")
        graph = compiled(found)
        if graph is None and not callable(found):
            raise LoadError(f"{name} of {place} is no graph, and graph {graph_id} names it")
        self._values[graph_id] = graph or Factory(graph_id, found)
        self._modules[graph_id] = module
        return {"id": graph_id, "isFactory": graph is None}

    def symbol(self, what: str, place: str, name: str):
        """Anything else that langgraph.json names: an Auth object, an app. Raises LoadError."""
        found = getattr(self._imported(what, place), name, None)
        if found is None:
            raise LoadError(f"{place} has no {name}, which {what} names")
        return found

    def value(self, graph_id: str):
        return self._values[graph_id]

    def module(self, graph_id: str):
        return self._modules[graph_id]

    def _imported(self, graph_id: str, place: str):
        try:
            if "/" not in place and not place.endswith(".py"):
                return importlib.import_module(place)
            return self._from_file(place)
        except LoadError:
            raise
        except BaseException as error:
            raise LoadError(self._sentence(place, error)) from error

    def _from_file(self, place: str):
        path = os.path.join(self._folder, place)
        if not os.path.isfile(path):
            raise LoadError(f"There is no file {path}")
        # As LangGraph's server names it: stored states name classes by their module.
        name = place.replace("/", "__").replace(".py", "").replace(" ", "_").lstrip(".")
        if name in sys.modules and getattr(sys.modules[name], "__file__", None) == path:
            return sys.modules[name]
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(name, None)
            raise
        return module

    def _sentence(self, place: str, error: BaseException) -> str:
        file, line = self._line(place, error)
        where = f"{file}:{line}" if line else file
        text = f"The graph in {where} cannot be loaded: {type(error).__name__}: {next(iter(error_text(error).splitlines()), '')}"
        return f"{text}: {self._remedy(error)}" if isinstance(error, ModuleNotFoundError) else text

    def _line(self, place: str, error: BaseException):
        """The innermost place in the project's own files."""
        if isinstance(error, SyntaxError) and error.filename:
            return error.filename, error.lineno
        frames = traceback.extract_tb(error.__traceback__)
        own = [one for one in frames if one.filename.startswith(self._folder + os.sep) and "site-packages" not in one.filename]
        return (own[-1].filename, own[-1].lineno) if own else (os.path.join(self._folder, place), None)

    def _remedy(self, error: ModuleNotFoundError) -> str:
        has = lambda name: os.path.exists(os.path.join(self._folder, name))
        if has("uv.lock"):
            return f"run `uv sync` in {self._folder}"
        pip = f"run `{sys.executable} -m pip install"
        if has("requirements.txt"):
            return f"{pip} -r {os.path.join(self._folder, 'requirements.txt')}`"
        if has("pyproject.toml"):
            return f"{pip} -e {self._folder}`"
        return f"{pip} {(error.name or '').split('.')[0]}`"


def compiled(value):
    """A graph that can run; None: this is none, a factory maybe."""
    from langgraph.graph import StateGraph
    from langgraph.pregel.protocol import PregelProtocol

    if isinstance(value, PregelProtocol):
        return value
    return value.compile() if isinstance(value, StateGraph) else None


class Factory:
    """A function that makes a graph: of nothing, of the configuration, of the runtime, or of both, told apart by its annotations."""

    def __init__(self, graph_id: str, function) -> None:
        self._id = graph_id
        self._function = function
        parameters = list(inspect.signature(function).parameters.values())
        try:
            hints = typing.get_type_hints(function, localns=_names())
        except Exception:
            hints = {}
        of_runtime = [one.name for one in parameters if _is_runtime(hints.get(one.name, one.annotation))]
        others = [one.name for one in parameters if one.name not in of_runtime]
        if len(of_runtime) > 1 or len(others) > 1:
            raise LoadError(f"The factory of graph {graph_id} may take a configuration and a ServerRuntime, and takes {len(parameters)} arguments")
        self._runtime, self._config = next(iter(of_runtime), None), next(iter(others), None)

    @contextlib.asynccontextmanager
    async def open(self, config: dict, runtime):
        """The graph it makes, as long as it is needed: it may be a context manager."""
        given = {}
        if self._runtime:
            given[self._runtime] = runtime
        if self._config:
            given[self._config] = config
        made = self._function(**given)
        if inspect.isawaitable(made):
            made = await made
        async with contextlib.AsyncExitStack() as stack:
            if hasattr(made, "__aenter__"):
                made = await stack.enter_async_context(made)
            elif hasattr(made, "__enter__"):
                made = stack.enter_context(made)
            graph = compiled(made)
            if graph is None:
                raise TypeError(f"The factory of graph {self._id} did not return a graph")
            yield graph


def server_runtime(access: str, user, store, context):
    """What LangGraph's server passes to factories; None: this SDK has none."""
    try:
        from langgraph_sdk.runtime import _ExecutionRuntime, _ReadRuntime
    except ImportError:
        return None
    about = {"access_context": access, "user": user, "store": store}
    return _ExecutionRuntime(**about, context=context) if access == "threads.create_run" else _ReadRuntime(**about)


def _names() -> dict:
    try:
        from langgraph_sdk.runtime import ServerRuntime
    except ImportError:
        return {}
    from langchain_core.runnables import RunnableConfig

    return {"ServerRuntime": ServerRuntime, "RunnableConfig": RunnableConfig, "Config": RunnableConfig}


def _is_runtime(annotation) -> bool:
    kinds = [one for name, one in _names().items() if name == "ServerRuntime"]
    if not kinds:
        return False
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _is_runtime(typing.get_args(annotation)[0])
    return annotation in kinds or origin in kinds


class Handle:
    """A graph that a factory has made for one call. Opened and closed in one task, as some context managers require."""

    def __init__(self) -> None:
        self._closed = asyncio.Event()
        self._task: asyncio.Task | None = None

    async def open(self, opening):
        opened = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(opening, opened))
        return await opened

    async def _hold(self, opening, opened) -> None:
        try:
            async with opening as graph:
                opened.set_result(graph)
                await self._closed.wait()
        except BaseException as error:
            if not opened.done():
                opened.set_exception(error if isinstance(error, Exception) else RuntimeError(error_text(error, repr)))

    def close(self) -> None:
        self._closed.set()
