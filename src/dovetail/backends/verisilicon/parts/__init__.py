"""What is known of VeriSilicon's parts: names, rules of their generations, and what probing them gave."""
