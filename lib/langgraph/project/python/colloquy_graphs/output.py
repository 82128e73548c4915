# What graphs print and log goes into the gateway's log, with the run it belongs to.
import contextvars
import io
import logging
import sys

# Threads of synchronous nodes have a copy.
RUN: contextvars.ContextVar = contextvars.ContextVar("colloquy_run", default=None)
_LINE_MAX = 8192
_LEVELS = ((logging.ERROR, "error"), (logging.WARNING, "warn"))


class _Lines(io.TextIOBase):
    """A text stream whose lines are messages of the log."""

    def __init__(self, channel, name: str, raw) -> None:
        self._channel = channel
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
            if line.strip():
                self._channel.send("log", "info", run, {"stream": self._name}, line[:_LINE_MAX])
        return len(text)

    def flush(self) -> None:
        """Lines are sent when they are complete."""


class _Records(logging.Handler):
    def __init__(self, channel) -> None:
        super().__init__()
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
            if record.exc_info and record.exc_info[0]:
                text += "\n" + logging.Formatter().formatException(record.exc_info)
        except Exception as error:
            text = f"{record.msg!r} cannot be formatted: {error}"
        level = next((name for least, name in _LEVELS if record.levelno >= least), "info")
        self._channel.send("log", level, RUN.get(), {"logger": record.name}, text[:_LINE_MAX])


def capture(channel) -> None:
    """From now on; what C code writes to the descriptors has no run."""
    sys.stdout, sys.stderr = (_Lines(channel, *one) for one in (("stdout", sys.stdout), ("stderr", sys.stderr)))
    root = logging.getLogger()
    root.addHandler(_Records(channel))
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)
