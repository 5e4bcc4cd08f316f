"""All errors that Ferrule raises or sends, in one module; the names are loaded on first use.

`FerruleError` is the base class. An `MCPError` is sent to a peer, or received from it (`RemoteError`). A `LocalError`
is never sent. The errors of authorization are in ``ferrule.auth``.

A client that does not answer questions (``max_rounds=0``) raises `InputRequiredError`; ``ferrule.InputRequired`` is the
value that a tool returns. A client raises `TooManyRounds`; a server that asks questions in more rounds than it allows
sends `RoundLimitExceeded`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any
from warnings import warn

if TYPE_CHECKING:
    from ferrule.app.authorization.handles import UnknownHandle as UnknownHandle
    from ferrule.app.errors import NoRequest as NoRequest
    from ferrule.app.errors import NoSession as NoSession
    from ferrule.app.errors import RegistrationError as RegistrationError
    from ferrule.app.errors import ResultError as ResultError
    from ferrule.app.errors import SignatureError as SignatureError
    from ferrule.app.errors import ToolError as ToolError
    from ferrule.app.middleware.builtin import RateLimited as RateLimited
    from ferrule.app.rounds.errors import AmbiguousKey as AmbiguousKey
    from ferrule.app.rounds.errors import ClientLacks as ClientLacks
    from ferrule.app.rounds.errors import InvalidAnswer as InvalidAnswer
    from ferrule.app.rounds.errors import NonDeterminismError as NonDeterminismError
    from ferrule.app.rounds.errors import NotSupportedHere as NotSupportedHere
    from ferrule.app.rounds.errors import QuestionExpired as QuestionExpired
    from ferrule.app.rounds.errors import RoundLimitExceeded as RoundLimitExceeded
    from ferrule.app.rounds.errors import RoundsError as RoundsError
    from ferrule.app.rounds.errors import StateExpired as StateExpired
    from ferrule.app.rounds.errors import StateForeignCall as StateForeignCall
    from ferrule.app.rounds.errors import StateForeignPrincipal as StateForeignPrincipal
    from ferrule.app.rounds.errors import StateRefused as StateRefused
    from ferrule.app.rounds.errors import StateTampered as StateTampered
    from ferrule.app.rounds.errors import StateTooLarge as StateTooLarge
    from ferrule.app.rounds.errors import StateUnknownKey as StateUnknownKey
    from ferrule.app.rounds.errors import StateUsed as StateUsed
    from ferrule.app.rounds.errors import StepFailed as StepFailed
    from ferrule.app.rounds.errors import StepInDoubt as StepInDoubt
    from ferrule.app.settings import SettingsError as SettingsError
    from ferrule.client.calls.callbacks import SamplingRefused as SamplingRefused
    from ferrule.client.calls.results import ToolFailed as ToolFailed
    from ferrule.client.connection.negotiation import NegotiationFailed as NegotiationFailed
    from ferrule.client.errors import BadServerResponse as BadServerResponse
    from ferrule.client.errors import DefinitionChanged as DefinitionChanged
    from ferrule.client.errors import ExtensionNotOffered as ExtensionNotOffered
    from ferrule.client.errors import InputNotProvided as InputNotProvided
    from ferrule.client.errors import InputRequiredError as InputRequiredError
    from ferrule.client.errors import InvalidToolOutput as InvalidToolOutput
    from ferrule.client.errors import OutputNotCheckable as OutputNotCheckable
    from ferrule.client.errors import ServerUnavailable as ServerUnavailable
    from ferrule.client.errors import SkillNotApproved as SkillNotApproved
    from ferrule.client.errors import SkillVerificationFailed as SkillVerificationFailed
    from ferrule.client.errors import TooManyPages as TooManyPages
    from ferrule.client.errors import TooManyRounds as TooManyRounds
    from ferrule.client.errors import UnknownServer as UnknownServer
    from ferrule.protocol.errors import CapabilityNotDeclared as CapabilityNotDeclared
    from ferrule.protocol.errors import ClientNotAskable as ClientNotAskable
    from ferrule.protocol.errors import ConnectionClosed as ConnectionClosed
    from ferrule.protocol.errors import ConvertError as ConvertError
    from ferrule.protocol.errors import DecodeError as DecodeError
    from ferrule.protocol.errors import EncodeError as EncodeError
    from ferrule.protocol.errors import FerruleError as FerruleError
    from ferrule.protocol.errors import HeaderMismatch as HeaderMismatch
    from ferrule.protocol.errors import InternalError as InternalError
    from ferrule.protocol.errors import InvalidParams as InvalidParams
    from ferrule.protocol.errors import InvalidRequest as InvalidRequest
    from ferrule.protocol.errors import LocalError as LocalError
    from ferrule.protocol.errors import MCPError as MCPError
    from ferrule.protocol.errors import MethodNotFound as MethodNotFound
    from ferrule.protocol.errors import MissingRequiredClientCapability as MissingRequiredClientCapability
    from ferrule.protocol.errors import NoBackChannel as NoBackChannel
    from ferrule.protocol.errors import NotInRevision as NotInRevision
    from ferrule.protocol.errors import ParseError as ParseError
    from ferrule.protocol.errors import RemoteError as RemoteError
    from ferrule.protocol.errors import RequestTimeout as RequestTimeout
    from ferrule.protocol.errors import ResourceNotFound as ResourceNotFound
    from ferrule.protocol.errors import UnsupportedProtocolVersion as UnsupportedProtocolVersion
    from ferrule.transports.asgi.context import HttpRefusal as HttpRefusal
    from ferrule.transports.hosting.workers import WorkerError as WorkerError
    from ferrule.transports.http.backend import HttpConnectFailed as HttpConnectFailed
    from ferrule.transports.http.backend import HttpConnectionLost as HttpConnectionLost
    from ferrule.transports.http.backend import HttpProtocolError as HttpProtocolError
    from ferrule.transports.http.errors import HttpRemoteError as HttpRemoteError
    from ferrule.transports.http.errors import HttpStatusError as HttpStatusError
    from ferrule.transports.stdio.client import ServerProcessEnded as ServerProcessEnded
    from ferrule.transports.stdio.client import ServerStartFailed as ServerStartFailed
    from ferrule.wire.jsonrpc import InvalidMessage as InvalidMessage

# Public name -> the module that defines it.
_MODULES: dict[str, str] = {
    "AmbiguousKey": "ferrule.app.rounds.errors",
    "BadServerResponse": "ferrule.client.errors",
    "CapabilityNotDeclared": "ferrule.protocol.errors",
    "ClientLacks": "ferrule.app.rounds.errors",
    "ClientNotAskable": "ferrule.protocol.errors",
    "ConnectionClosed": "ferrule.protocol.errors",
    "ConvertError": "ferrule.protocol.errors",
    "DecodeError": "ferrule.protocol.errors",
    "EncodeError": "ferrule.protocol.errors",
    "DefinitionChanged": "ferrule.client.errors",
    "ExtensionNotOffered": "ferrule.client.errors",
    "FerruleError": "ferrule.protocol.errors",
    "HeaderMismatch": "ferrule.protocol.errors",
    "HttpConnectFailed": "ferrule.transports.http.backend",
    "HttpConnectionLost": "ferrule.transports.http.backend",
    "HttpProtocolError": "ferrule.transports.http.backend",
    "HttpRefusal": "ferrule.transports.asgi.context",
    "HttpRemoteError": "ferrule.transports.http.errors",
    "HttpStatusError": "ferrule.transports.http.errors",
    "InputNotProvided": "ferrule.client.errors",
    "InputRequiredError": "ferrule.client.errors",
    "InternalError": "ferrule.protocol.errors",
    "InvalidAnswer": "ferrule.app.rounds.errors",
    "InvalidMessage": "ferrule.wire.jsonrpc",
    "InvalidParams": "ferrule.protocol.errors",
    "InvalidRequest": "ferrule.protocol.errors",
    "InvalidToolOutput": "ferrule.client.errors",
    "OutputNotCheckable": "ferrule.client.errors",
    "ServerUnavailable": "ferrule.client.errors",
    "SkillNotApproved": "ferrule.client.errors",
    "SkillVerificationFailed": "ferrule.client.errors",
    "LocalError": "ferrule.protocol.errors",
    "MCPError": "ferrule.protocol.errors",
    "MethodNotFound": "ferrule.protocol.errors",
    "MissingRequiredClientCapability": "ferrule.protocol.errors",
    "NegotiationFailed": "ferrule.client.connection.negotiation",
    "NoBackChannel": "ferrule.protocol.errors",
    "NoRequest": "ferrule.app.errors",
    "NoSession": "ferrule.app.errors",
    "NonDeterminismError": "ferrule.app.rounds.errors",
    "NotInRevision": "ferrule.protocol.errors",
    "NotSupportedHere": "ferrule.app.rounds.errors",
    "ParseError": "ferrule.protocol.errors",
    "QuestionExpired": "ferrule.app.rounds.errors",
    "RateLimited": "ferrule.app.middleware.builtin",
    "RegistrationError": "ferrule.app.errors",
    "RemoteError": "ferrule.protocol.errors",
    "RequestTimeout": "ferrule.protocol.errors",
    "ResourceNotFound": "ferrule.protocol.errors",
    "ResultError": "ferrule.app.errors",
    "RoundLimitExceeded": "ferrule.app.rounds.errors",
    "RoundsError": "ferrule.app.rounds.errors",
    "SamplingRefused": "ferrule.client.calls.callbacks",
    "ServerProcessEnded": "ferrule.transports.stdio.client",
    "ServerStartFailed": "ferrule.transports.stdio.client",
    "SettingsError": "ferrule.app.settings",
    "SignatureError": "ferrule.app.errors",
    "StateExpired": "ferrule.app.rounds.errors",
    "StateForeignCall": "ferrule.app.rounds.errors",
    "StateForeignPrincipal": "ferrule.app.rounds.errors",
    "StateRefused": "ferrule.app.rounds.errors",
    "StateTampered": "ferrule.app.rounds.errors",
    "StateTooLarge": "ferrule.app.rounds.errors",
    "StateUnknownKey": "ferrule.app.rounds.errors",
    "StateUsed": "ferrule.app.rounds.errors",
    "StepFailed": "ferrule.app.rounds.errors",
    "StepInDoubt": "ferrule.app.rounds.errors",
    "TooManyPages": "ferrule.client.errors",
    "TooManyRounds": "ferrule.client.errors",
    "ToolError": "ferrule.app.errors",
    "ToolFailed": "ferrule.client.calls.results",
    "UnknownHandle": "ferrule.app.authorization.handles",
    "UnknownServer": "ferrule.client.errors",
    "UnsupportedProtocolVersion": "ferrule.protocol.errors",
    "WorkerError": "ferrule.transports.hosting.workers",
}

# Name until 0.2 -> its name now.
_RENAMED = {"Divergence": "NonDeterminismError", "InputRequired": "InputRequiredError"}

__all__ = [
    "AmbiguousKey",
    "BadServerResponse",
    "CapabilityNotDeclared",
    "ClientLacks",
    "ClientNotAskable",
    "ConnectionClosed",
    "ConvertError",
    "DecodeError",
    "DefinitionChanged",
    "EncodeError",
    "ExtensionNotOffered",
    "FerruleError",
    "HeaderMismatch",
    "HttpConnectFailed",
    "HttpConnectionLost",
    "HttpProtocolError",
    "HttpRefusal",
    "HttpRemoteError",
    "HttpStatusError",
    "InputNotProvided",
    "InputRequiredError",
    "InternalError",
    "InvalidAnswer",
    "InvalidMessage",
    "InvalidParams",
    "InvalidRequest",
    "InvalidToolOutput",
    "LocalError",
    "MCPError",
    "MethodNotFound",
    "MissingRequiredClientCapability",
    "NegotiationFailed",
    "NoBackChannel",
    "NoRequest",
    "NoSession",
    "NonDeterminismError",
    "NotInRevision",
    "NotSupportedHere",
    "OutputNotCheckable",
    "ParseError",
    "QuestionExpired",
    "RateLimited",
    "RegistrationError",
    "RemoteError",
    "RequestTimeout",
    "ResourceNotFound",
    "ResultError",
    "RoundLimitExceeded",
    "RoundsError",
    "SamplingRefused",
    "ServerProcessEnded",
    "ServerStartFailed",
    "ServerUnavailable",
    "SettingsError",
    "SignatureError",
    "SkillNotApproved",
    "SkillVerificationFailed",
    "StateExpired",
    "StateForeignCall",
    "StateForeignPrincipal",
    "StateRefused",
    "StateTampered",
    "StateTooLarge",
    "StateUnknownKey",
    "StateUsed",
    "StepFailed",
    "StepInDoubt",
    "TooManyPages",
    "TooManyRounds",
    "ToolError",
    "ToolFailed",
    "UnknownHandle",
    "UnknownServer",
    "UnsupportedProtocolVersion",
    "WorkerError",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its module, once."""
    module = _MODULES.get(name)
    if module is None and (renamed := _RENAMED.get(name)) is not None:
        warn(f"ferrule.errors.{name} is now {renamed}; ferrule 0.3 removes the old name", DeprecationWarning, 2)
        return __getattr__(renamed)
    if module is None:
        raise AttributeError(f"module 'ferrule.errors' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    """All public names, loaded or not."""
    return sorted({*globals(), *__all__})
