"""Small formats: one module a toolchain."""
