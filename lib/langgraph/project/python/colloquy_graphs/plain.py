# The JSON view of what graphs produce, as LangGraph's server shows it: models by their fields, sets as lists, NaN as null.
import base64
import dataclasses
import datetime
import decimal
import enum
import json
import math
import pathlib
import re
import uuid
from collections import deque

try:
    import orjson
except ImportError:
    orjson = None

_DEPTH_MAX = 250
# Of what an error says, in characters: somebody may have put a whole document into it.
_ERROR_TEXT_MAX = 8_000
# LangGraph's own types, by the names of their members.
_SURROGATE = re.compile("[\ud800-\udfff]")


def dumps(value) -> bytes:
    """JSON of any value; what has no JSON is null. Never raises for what a graph may hold."""
    if orjson is not None:
        try:
            return orjson.dumps(value, default=default, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
        except Exception:
            pass
    # Slower, for what orjson refuses: large integers, lone surrogates, circles, odd keys.
    return json.dumps(plain(value), separators=(",", ":"), allow_nan=False).encode()


def loads(text):
    return orjson.loads(text) if orjson is not None else json.loads(text)


def default(value):
    """Fields of an object that is not JSON by itself."""
    if type(value).__name__ == "Send" and hasattr(value, "node"):
        return {"node": value.node, "args": value.arg}
    if isinstance(value, type):
        return None
    for method in ("model_dump", "dict", "_asdict"):
        if callable(getattr(value, method, None)):
            return getattr(value, method)()
    if isinstance(value, BaseException):
        return {"error": type(value).__name__, "message": error_text(value)}
    if isinstance(value, (set, frozenset, deque)):
        return list(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    return _scalar(value)


def _scalar(value):
    if isinstance(value, decimal.Decimal):
        whole = value.is_finite() and value == value.to_integral_value()
        return int(value) if whole else float(value)
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, datetime.tzinfo):
        return value.tzname(None)
    if isinstance(value, re.Pattern):
        return value.pattern
    if isinstance(value, (pathlib.PurePath, uuid.UUID)) or type(value).__module__ == "ipaddress":
        return str(value)
    return None


def error_text(error: BaseException, text=str) -> str:
    """What an error says. Its class may be a graph's own, and fail at that too."""
    try:
        return text(error)[:_ERROR_TEXT_MAX]
    except BaseException:
        return ""


def plain(value, depth=0):
    """The same as data of JSON's own types. What cannot be read is null."""
    try:
        return _plain(value, depth)
    except Exception:
        return None


def _plain(value, depth):
    if depth > _DEPTH_MAX:
        return None
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, enum.Enum):
        return plain(value.value, depth + 1)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(one, depth + 1) for key, one in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_asdict"):
        return [plain(one, depth + 1) for one in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name, None), depth + 1) for field in dataclasses.fields(value)}
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    return plain(default(value), depth + 1)
