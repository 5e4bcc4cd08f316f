"""Servers as functions: AWS Lambda behind API Gateway, a function URL or a load balancer, and hosts of any other form.

``handler = ferrule.serverless.handler(app)`` is the function; `FunctionHandler.handle` and `FunctionHandler.respond`
take plain requests. The core is that of a WSGI host: JSON answers in one piece, no streams, no sessions; the modern era
needs none of them, and the handshake era is served without sessions.
"""

from __future__ import annotations

from ferrule.serverless.events import FunctionRequest, FunctionResponse
from ferrule.serverless.function import FunctionHandler, handler

__all__ = ["FunctionHandler", "FunctionRequest", "FunctionResponse", "handler"]
