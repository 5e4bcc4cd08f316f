"""``Content-Type`` and ``Accept`` headers (RFC 9110, sections 8.3 and 12.5.1).

Pure functions over header values; the endpoint decides the HTTP status.
"""

__all__ = ["accepts", "is_json_content_type"]

_UTF8_NAMES = frozenset({"utf-8", "utf8", '"utf-8"', '"utf8"', "us-ascii"})


def is_json_content_type(value: str) -> bool:
    """Return whether a ``Content-Type`` value is JSON in UTF-8.

    Parameters other than ``charset`` are ignored; a charset other than UTF-8 (or its subset US-ASCII) is refused,
    because the body is always decoded as UTF-8 (RFC 8259, section 8.1).
    """
    essence, _, parameters = value.partition(";")
    # Exactly this type: browsers may send text/plain and forms to any origin without asking first (CORS).
    if essence.strip().lower() != "application/json":
        return False
    for parameter in parameters.split(";"):
        name, _, charset = parameter.partition("=")
        if name.strip().lower() == "charset" and charset.strip().lower() not in _UTF8_NAMES:
            return False
    return True


def accepts(value: str, media_type: str) -> bool:
    """Return whether an ``Accept`` value admits ``media_type`` (lower case, without parameters).

    The most specific range that matches decides: ``text/event-stream;q=0, */*`` refuses event streams and admits JSON.
    An empty value, like a missing header, admits everything. A malformed weight counts as 1: the client named the type.
    """
    if not value.strip():
        return True
    kind = media_type.partition("/")[0] + "/*"
    best_rank, weight = -1, 0.0
    for item in value.split(","):
        media_range, *parameters = item.split(";")
        name = media_range.strip().lower()
        rank = 2 if name == media_type else 1 if name == kind else 0 if name == "*/*" else -1
        if rank > best_rank:
            best_rank, weight = rank, _weight(parameters)
        elif rank == best_rank and rank >= 0:
            weight = max(weight, _weight(parameters))
    return weight > 0


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, text = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                return float(text)
            except ValueError:
                return 1.0
    return 1.0
