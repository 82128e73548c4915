# Calls and one-way messages between this process and the gateway, in order, over a pipe of its own descriptor. The same channel as
# that of our threads (worker-channel.ts): here each message is JSON behind its length. Reading and writing have threads of their own,
# so that a blocked event loop blocks neither, and a synchronous node can wait for an answer.
import asyncio
import concurrent.futures
import os
import queue
import struct
import threading

from .plain import dumps, error_text, loads

_LENGTH = struct.Struct(">I")
# Messages that are waiting are written together, up to this size.
_WRITE_BYTES = 1 << 18
# More are waiting than a gateway that keeps up leaves.
_BEHIND_MESSAGES = 5_000


class LoadError(Exception):
    """The project cannot be used; the message is one sentence for its operator."""


class RemoteError(Exception):
    """An error of the gateway. It loses its class on the way, and has it again when it goes back."""

    def __init__(self, error: dict) -> None:
        super().__init__(error["message"])
        self.sent = error


class Channel:
    def __init__(self, fd: int, loop: asyncio.AbstractEventLoop, on_closed) -> None:
        self._fd = fd
        self._loop = loop
        self._on_closed = on_closed
        self._waiting: dict[int, concurrent.futures.Future] = {}
        self._count = 0
        self._lock = threading.Lock()
        self._out: queue.SimpleQueue = queue.SimpleQueue()
        self.handlers: dict = {}
        # Handlers called in the reading thread: they must answer however busy the event loop is.
        self.immediate: dict = {}

    def start(self) -> None:
        for work in (self._read, self._write):
            threading.Thread(target=work, name=f"colloquy {work.__name__}", daemon=True).start()

    def send(self, name: str, *args) -> int:
        """Sends a message without an answer. Returns its size."""
        return self._put({"send": name, "args": args})

    def call(self, name: str, *args):
        """The gateway's answer; blocks this thread. Also safe in the event loop's own thread."""
        return self._ask(name, args)[1].result()

    async def acall(self, name: str, *args):
        number, answer = self._ask(name, args)
        try:
            return await asyncio.wrap_future(answer)
        finally:
            self._waiting.pop(number, None)

    @property
    def is_behind(self) -> bool:
        """The gateway does not read as fast as this process writes: what may be left out is."""
        return self._out.qsize() > _BEHIND_MESSAGES

    def _ask(self, name: str, args):
        answer: concurrent.futures.Future = concurrent.futures.Future()
        with self._lock:
            self._count += 1
            number = self._count
            self._waiting[number] = answer
        self._put({"call": number, "name": name, "args": args})
        return number, answer

    def _put(self, message) -> int:
        data = dumps(message)
        self._out.put(data)
        return len(data)

    def _write(self) -> None:
        while True:
            data = self._out.get()
            parts = [_LENGTH.pack(len(data)), data]
            size = len(data)
            while size < _WRITE_BYTES:
                try:
                    data = self._out.get_nowait()
                except queue.Empty:
                    break
                parts += [_LENGTH.pack(len(data)), data]
                size += len(data)
            try:
                self._write_all(b"".join(parts))
            except OSError:
                return self._on_closed()

    def _write_all(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def _read(self) -> None:
        try:
            while True:
                (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
                self._receive(loads(self._exactly(length)))
        except (EOFError, OSError):
            self._on_closed()

    def _exactly(self, length: int) -> bytes:
        parts = []
        while length > 0:
            part = os.read(self._fd, min(length, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _receive(self, message: dict) -> None:
        if "answer" in message:
            return self._resolve(message)
        name = message.get("send") or message.get("name")
        if name in self.immediate:
            return self.immediate[name](*message["args"])
        self._loop.call_soon_threadsafe(self._dispatch, name, message)

    def _resolve(self, message: dict) -> None:
        answer = self._waiting.pop(message["answer"], None)
        if answer is None or answer.cancelled():
            return
        error = message.get("error")
        try:
            if error:
                answer.set_exception(RemoteError(error))
            else:
                answer.set_result(message.get("value"))
        except concurrent.futures.InvalidStateError:
            # Who asked was cancelled meanwhile.
            pass

    def _dispatch(self, name: str, message: dict) -> None:
        handler = self.handlers[name]
        if "send" in message:
            handler(*message["args"])
            return
        task = self._loop.create_task(self._answer(message["call"], handler, message["args"]))
        _TASKS.add(task)
        task.add_done_callback(_TASKS.discard)

    async def _answer(self, number: int, handler, args) -> None:
        try:
            value = await handler(*args)
            self._put({"answer": number, "value": value})
        except BaseException as error:
            # A graph may raise anything, SystemExit too, and make what has no JSON: it is its call's failure, not that of the process.
            self._put({"answer": number, "error": sent(error)})


# The loop itself keeps only weak references.
_TASKS: set = set()


def sent(error: BaseException) -> dict:
    if isinstance(error, RemoteError):
        return error.sent
    kind = "file" if isinstance(error, LoadError) else "other"
    message = error_text(error) or type(error).__name__
    return {"kind": kind, "name": type(error).__name__, "message": message, "stopReason": None}
