# What graphs print and log goes into the gateway's log, with the run it belongs to.
import contextvars
import io
import logging
import sys

# Threads of synchronous nodes have a copy.
RUN: contextvars.ContextVar = contextvars.ContextVar("colloquy_run", default=None)
_LINE_MAX = 8192
_LEVELS = ((logging.ERROR, "error"), (logging.WARNING, "warn"))


class _Log:
    """Sends lines to the gateway, but for those that it could not take in time: how many is said with the next."""

    def __init__(self, channel) -> None:
        self._channel = channel
        self._left_out = 0

    def send(self, level: str, run, about: dict, text: str) -> None:
        if self._channel.is_behind:
            self._left_out += 1
            return
        count, self._left_out = self._left_out, 0
        if count > 0:
            self._channel.send("log", "warn", run, about, f"{count} lines were left out: more was written than can be taken")
        self._channel.send("log", level, run, about, text[:_LINE_MAX])


class _Lines(io.TextIOBase):
    """A text stream whose lines are messages of the log."""

    def __init__(self, log: _Log, name: str, raw) -> None:
        self._log = log
        self._name = name
        self._raw = raw
        # By run: lines of several may be written at once.
        self._parts: dict = {}

    @property
    def encoding(self):
        return "utf-8"

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    @property
    def buffer(self):
        return self._raw.buffer

    def write(self, text: str) -> int:
        run = RUN.get()
        *lines, rest = (self._parts.pop(run, "") + text).split("\n")
        if len(rest) > _LINE_MAX:
            lines, rest = [*lines, rest], ""
        if rest:
            self._parts[run] = rest
        for line in lines:
            self._send(run, line)
        return len(text)

    def _send(self, run, line: str) -> None:
        if line.strip():
            self._log.send("info", run, {"stream": self._name}, line)

    def end(self, run) -> None:
        """Of a run that is over: the line that it has not ended."""
        self._send(run, self._parts.pop(run, ""))

    def flush(self) -> None:
        """Lines are sent when they are complete."""


class _Records(logging.Handler):
    def __init__(self, log: _Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
            if record.exc_info and record.exc_info[0]:
                text += "\n" + logging.Formatter().formatException(record.exc_info)
        except Exception as error:
            text = f"{record.msg!r} cannot be formatted: {error}"
        level = next((name for least, name in _LEVELS if record.levelno >= least), "info")
        self._log.send(level, RUN.get(), {"logger": record.name}, text)


def end(run) -> None:
    """A run is over: what it has printed is complete."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, _Lines):
            stream.end(run)


def capture(channel) -> None:
    """From now on; what C code writes to the descriptors has no run."""
    log = _Log(channel)
    sys.stdout, sys.stderr = (_Lines(log, *one) for one in (("stdout", sys.stdout), ("stderr", sys.stderr)))
    root = logging.getLogger()
    root.addHandler(_Records(log))
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)
