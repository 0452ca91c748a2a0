"""Tasks: self-contained modules in the KernelBench form (``Model``, ``get_inputs``, ``get_init_inputs``)."""
