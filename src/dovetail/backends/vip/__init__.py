"""The arithmetic of VeriSilicon's engines, as the vendor's simulator shows it."""
