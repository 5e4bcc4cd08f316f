"""JSON encoding and decoding; no other module uses ``json`` or ``msgspec.json``, so that these rules hold everywhere:

* NaN and the infinities are written as ``null``; as JSON tokens they are refused.
* A lone surrogate in a ``\\uD800`` escape is accepted, and written as U+FFFD: a JavaScript peer may cut text in the
  middle of a pair, which must not make the message unreadable, and UTF-8 has no lone surrogates.
* Invalid UTF-8 and a byte order mark are refused. Of duplicate keys the last value is used. Integers are exact up to
  4,300 digits (the interpreter's limit); larger ones, and numbers beyond a double, are refused.
* Nesting is limited to `ferrule.wire.nesting.MAX_DEPTH` levels, when reading and when writing; deeper input is refused
  before it is parsed.

The size of input is limited before, by the framing and the HTTP endpoint.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import lru_cache
from math import isinf
from typing import Any, Literal, TypeVar, cast

import msgspec

from ferrule.wire.faults import ConvertError, DecodeError, EncodeError
from ferrule.wire.nesting import MAX_DEPTH, is_deeper, may_be_too_deep
from ferrule.wire.patterns import pattern
from ferrule.wire.struct import convert_unknown_kinds, decode_hook

__all__ = [
    "Encoded",
    "canonical",
    "convert",
    "decode",
    "decoder",
    "encode",
    "encode_str",
    "is_path_class",
    "number_decoder",
    "plain_decoder",
    "plain_encode",
    "to_builtins",
]

T = TypeVar("T")

Encoded = msgspec.Raw
"""An encoded JSON value: ``Encoded(b'{"a":1}')`` may be part of any value that is passed to `encode`."""

_TOO_DEEP = f"The message is nested more than {MAX_DEPTH} levels deep"

_SURROGATE = pattern("[\ud800-\udfff]")
_SURROGATE_ESCAPE = pattern(rb"\\u[dD][89a-fA-F]")
_PATH = pattern(r"^(?P<reason>.*?) - at `(?P<path>[^`]*)`$", re.DOTALL)


def is_path_class(cls: type) -> bool:
    """Return whether a class is one of ``pathlib``, which is not imported for the question: it costs 5 ms."""
    paths = sys.modules.get("pathlib")  # without the module there is no path
    return paths is not None and issubclass(cls, paths.PurePath)


def _encode_hook(value: Any) -> Any:
    """Return the JSON shape of a value of a type that msgspec does not support."""
    if isinstance(value, str):  # a subclass of str: msgspec supports the exact type only
        return str.__str__(value)
    if is_path_class(value.__class__):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _builtins_hook(value: Any) -> Any:
    if isinstance(value, msgspec.Raw):
        return decode(bytes(value))
    return _encode_hook(value)


_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(enc_hook=_encode_hook).encode
_encode_sorted = msgspec.json.Encoder(enc_hook=_encode_hook, order="deterministic").encode


def decode(data: bytes | bytearray | memoryview | str) -> Any:
    """Return the JSON value in ``data`` (UTF-8).

    Raises:
        DecodeError: not JSON, not UTF-8, nested too deeply, or a number out of range (the sender's fault).
    """
    # The number of brackets is a cheap test that only deep or very large messages fail.
    if len(data) > MAX_DEPTH and (type(data) is not bytes or may_be_too_deep(data)):
        _check_depth(data)
    try:
        return _decode(data)
    except Exception as error:
        if _may_hold_surrogates(data, error):  # msgspec refuses lone surrogates, Ferrule accepts them
            return _decode_with_surrogates(data)
        raise _decode_error(error) from error


def _check_depth(data: bytes | bytearray | memoryview | str) -> None:
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    elif isinstance(data, memoryview):
        data = data.tobytes()
    if may_be_too_deep(data) and is_deeper(data):
        raise DecodeError(_TOO_DEEP)


def number_decoder(number: Callable[[str], Any]) -> Callable[[bytes], Any]:
    """Return a function as `decode` that does not judge the range of numbers with a fraction or an exponent.

    Args:
        number: called with the text of each such number; what it returns takes its place.
    """
    read = msgspec.json.Decoder(float_hook=number).decode

    def read_numbers(data: bytes) -> Any:
        if len(data) > MAX_DEPTH:
            _check_depth(data)
        try:
            return read(data)
        except Exception:
            return decode(data)  # accepts lone surrogates, or raises the precise error

    return read_numbers


def decoder(type_: type[T]) -> Callable[[bytes | bytearray | memoryview | str], T]:
    """Return a function that decodes JSON bytes directly to ``type_``; made once for each type.

    Raises (the returned function):
        DecodeError: the bytes are not JSON.
        ConvertError: the value does not have the declared shape.
    """
    read = _decoder_for(cast("Any", type_)).decode

    def read_typed(data: bytes | bytearray | memoryview | str) -> T:
        if len(data) > MAX_DEPTH and (type(data) is not bytes or may_be_too_deep(data)):
            _check_depth(data)
        try:
            return cast("T", read(data))
        except msgspec.ValidationError:
            return convert(decode(data), type_)  # accepts unknown kinds of content, or raises the precise error
        except Exception as error:
            if _may_hold_surrogates(data, error):
                return convert(_decode_with_surrogates(data), type_)
            raise _decode_error(error) from error

    return read_typed


def plain_decoder(type_: type[T], hook: Callable[[Any, Any], Any] | None = None) -> Callable[[bytes | Encoded], T]:
    """Return a decoder as `decoder` does, for callers that use `decode` and `convert` when it raises.

    It has no second attempt and no errors of Ferrule, and does not check the depth.

    Args:
        type_: anything msgspec can describe.
        hook: see `convert`.

    Raises (the returned function):
        Exception: the bytes are not JSON, have another shape, or contain something that only `decode` accepts.
    """
    return msgspec.json.Decoder(type_, dec_hook=hook).decode


plain_encode = msgspec.json.Encoder().encode
"""As `encode`, without a check of the depth; for callers that call `encode` when this raises."""


def encode(value: Any) -> bytes:
    """Return ``value`` as compact JSON in UTF-8.

    Raises:
        EncodeError: the value has no JSON form, contains itself, or is nested too deeply (the caller's fault).
    """
    try:
        data = _encode(value)
    # msgspec refuses lone surrogates, which Python strings from the outside (file names) may contain.
    except UnicodeEncodeError:
        return _encode_with_surrogates(value)
    except RecursionError as error:
        raise EncodeError("The value is nested too deeply or refers to itself") from error
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise EncodeError(f"The value cannot be written as JSON: {error}") from error
    # Cheap conditions first: few values have that many brackets. Peers refuse what is deeper (see `MAX_DEPTH`).
    if len(data) > MAX_DEPTH and may_be_too_deep(data) and is_deeper(data):
        raise EncodeError(f"The value is nested too deeply: more than {MAX_DEPTH} levels")
    return data


def encode_str(value: Any) -> str:
    """Return ``value`` as compact JSON text; for errors see `encode`."""
    return encode(value).decode()


def canonical(value: Any) -> bytes:
    """Return ``value`` as JSON that is the same for equal values, for digests.

    Keys and sets are sorted, and integral floats are written as integers.

    Raises:
        EncodeError: see `encode`.
    """
    try:
        # JSON does not distinguish 1 and 1.0: a peer may send back either.
        return _encode_sorted(_with_whole_numbers(_without_surrogates(to_builtins(value, order="deterministic"))))
    except RecursionError as error:
        raise EncodeError("The value is nested too deeply") from error


def _with_whole_numbers(value: Any) -> Any:
    return _copied(value, lambda leaf: int(leaf) if isinstance(leaf, float) and leaf.is_integer() else leaf)


def _copied(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """Return a copy of builtins with ``leaf`` applied to all keys and all values that are not container."""
    # A stack instead of recursion: the depth of a value is limited by `MAX_DEPTH`, not by the interpreter.
    top: list[Any] = [value]
    todo: list[tuple[Any, Any, Any]] = [(top, 0, value)]  # (container of the copy, its index or key, original)
    while todo:
        place, at, item = todo.pop()
        if isinstance(item, dict):
            made: Any = {}
            todo += [
                (made, leaf(key), inner)
                for key, inner in reversed(cast("dict[Any, Any]", cast("object", item)).items())
            ]
        elif isinstance(item, (list, tuple)):
            items = cast("list[Any]", item)
            made = [None] * len(items)
            todo += [(made, index, inner) for index, inner in enumerate(items)]
        else:
            place[at] = leaf(item)
            continue
        place[at] = made
    return top[0]


def convert(value: Any, type_: type[T], *, strict: bool = True, hook: Callable[[Any, Any], Any] | None = None) -> T:
    """Return decoded JSON as an instance of ``type_``.

    Args:
        value: builtins, as `decode` returns them; not changed.
        type_: any type that msgspec supports.
        strict: ``False`` also converts text to numbers and booleans.
        hook: ``(type, value) -> instance`` for classes that msgspec does not support; keys of mappings are then
            converted from text too.

    Raises:
        ConvertError: the value does not have the declared shape; with the JSON path.
    """
    try:
        if hook is not None:
            return msgspec.convert(value, type_, strict=strict, dec_hook=hook, str_keys=True)
        return msgspec.convert(value, type_, strict=strict, dec_hook=decode_hook)
    except msgspec.ValidationError as error:
        if hook is not None:
            raise _convert_error(error) from error
        # Only after a failure: a second conversion of each value would double the cost.
        return _convert_again(value, type_, strict)
    except RecursionError as error:
        raise ConvertError("The value is nested too deeply") from error


def _convert_again(value: Any, type_: type[T], strict: bool) -> T:
    """Convert a second time and accept unknown kinds of content, which a peer of a newer revision may send."""
    try:
        return cast("T", convert_unknown_kinds(value, type_, strict=strict))
    except msgspec.ValidationError as error:
        raise _convert_error(error) from error
    except RecursionError as error:
        raise ConvertError("The value is nested too deeply") from error


def to_builtins(value: Any, *, order: Literal["deterministic"] | None = None) -> Any:
    """Return ``value`` as dicts, lists, text, numbers, booleans and ``None``, under its wire names.

    Args:
        value: any value that `encode` accepts.
        order: ``"deterministic"`` sorts sets, whose order differs between processes.

    Raises:
        EncodeError: see `encode`.
    """
    try:
        return msgspec.to_builtins(value, enc_hook=_builtins_hook, str_keys=True, order=order)
    except RecursionError as error:
        raise EncodeError("The value is nested too deeply or refers to itself") from error
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise EncodeError(f"The value cannot be written as JSON: {error}") from error


@lru_cache(maxsize=512)
def _decoder_for(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_, dec_hook=decode_hook)


def _may_hold_surrogates(data: bytes | bytearray | memoryview | str, error: Exception) -> bool:
    """Return whether a refused message contains an escaped surrogate, and may be valid otherwise."""
    # The text of msgspec's error differs by the place of the surrogate, so that it is not evidence.
    if not isinstance(error, msgspec.DecodeError):
        return False
    if isinstance(data, str):
        return _SURROGATE_ESCAPE.search(data.encode("utf-8", "replace")) is not None
    return _SURROGATE_ESCAPE.search(data) is not None


def _decode_with_surrogates(data: bytes | bytearray | memoryview | str) -> Any:
    """Return the decoded value; the slow path of `decode`, with the standard library, which reads lone surrogates."""
    import json

    try:
        text = data if isinstance(data, str) else bytes(data).decode()
        return _without_surrogates(json.loads(text, parse_constant=_refuse_constant, parse_float=_finite_float))
    except (ValueError, RecursionError) as error:
        raise _decode_error(error) from error


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite_float(text: str) -> float:
    value = float(text)
    # JSON has no infinity; the standard library makes one of a number that is too large.
    if isinf(value):
        raise ValueError("Number out of range")
    return value


def _encode_with_surrogates(value: Any) -> bytes:
    """Return the encoded value with U+FFFD for lone surrogates; the slow path of `encode`."""
    try:
        return encode(_without_surrogates(to_builtins(value)))
    except RecursionError as error:
        raise EncodeError("The value is nested too deeply or refers to itself") from error


def _without_surrogates(value: Any) -> Any:
    return _copied(value, _repaired)


def _repaired(value: Any) -> Any:
    if not isinstance(value, str) or _SURROGATE.search(value) is None:
        return value
    # Through UTF-16, which joins the two halves of a pair, so that only lone surrogates are replaced.
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


_INVALID_UTF8 = "Invalid UTF-8 encoded string"


def _decode_error(error: Exception) -> DecodeError:
    if isinstance(error, RecursionError):
        return DecodeError(_TOO_DEEP)
    # A `UnicodeError` before msgspec 0.23.
    if isinstance(error, UnicodeError) or str(error) == _INVALID_UTF8:
        return DecodeError("The message is not valid UTF-8")
    if isinstance(error, msgspec.DecodeError):
        return DecodeError(f"The message is not valid JSON: {str(error).removeprefix('JSON is malformed: ')}")
    return DecodeError("The message is not valid JSON")


def _convert_error(error: msgspec.ValidationError) -> ConvertError:
    text = str(error)
    found = _PATH.match(text)
    if found is None:
        return ConvertError(text)
    return ConvertError(found["reason"], found["path"])
