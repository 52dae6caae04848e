"""Programs on the vendor's compiler and simulator: a shim in a worker process."""
