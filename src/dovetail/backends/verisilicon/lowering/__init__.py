"""From nodes of our Graph to operators of the shim, one family a module."""
