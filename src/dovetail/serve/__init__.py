"""Serve bundles over the Open Inference Protocol (KServe v2), gRPC and REST; needs the extra `serve`."""

from dovetail.serve.access import ServerTls
from dovetail.serve.limits import ServeLimits
from dovetail.serve.options import ServeOptions

__all__ = ["ServeLimits", "ServeOptions", "ServerTls"]
