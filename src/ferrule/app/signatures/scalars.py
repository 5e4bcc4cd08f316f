"""The JSON Schemas of Python's scalar types, for accepted and for sent values.

The conversion accepts all values that an accepted schema allows; all values that are sent fit the sent schema.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Any

__all__ = ["ACCEPTED", "SENT"]

NoneType = type(None)

_BASE64 = {
    "type": "string",
    "contentEncoding": "base64",
    "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
}
_TIME = r"([0-9]{1,8}H([0-9]{1,8}M)?(SEC)?|[0-9]{1,8}M(SEC)?|SEC)".replace("SEC", r"[0-9]{1,8}(\.[0-9]{1,6})?S")

ACCEPTED: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    bytes: _BASE64,
    bytearray: _BASE64,
    memoryview: _BASE64,
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    # No `format`: "time" demands an offset, "duration" allows years and months, and none is known for decimals.
    datetime.time: {
        "type": "string",
        "pattern": r"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?$",
    },
    datetime.timedelta: {"type": "string", "pattern": f"^[+-]?P([0-9]{{1,8}}D(T{_TIME})?|T{_TIME})$"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    decimal.Decimal: {
        "type": "string",
        "pattern": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,6})?$",
    },
}
"""Schemas of accepted values."""

SENT: dict[Any, dict[str, Any]] = {
    bytes: {"type": "string", "contentEncoding": "base64"},
    bytearray: {"type": "string", "contentEncoding": "base64"},
    memoryview: {"type": "string", "contentEncoding": "base64"},
    datetime.datetime: {"type": "string"},  # RFC 3339 demands an offset, and the value may have none
    datetime.time: {"type": "string"},
    datetime.timedelta: {"type": "string"},
    decimal.Decimal: {"type": "string"},  # `NaN` is one
}
"""Schemas of sent values, where they allow more: a client that validates a result must accept all values."""
