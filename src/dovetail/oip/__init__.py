"""The Open Inference Protocol (KServe v2): its messages, its types, and errors on the wire."""
