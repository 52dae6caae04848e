"""The backend `vsi`: VeriSilicon's own compiler and simulator, in worker processes."""
