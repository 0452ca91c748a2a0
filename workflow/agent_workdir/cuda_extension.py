"""`import cuda_extension; cuda_extension.name(...)`: the functions that the bindings registered. Fixed.

Built by `utils/compile.sh`. Arguments are tensors, numbers and truth values; launches go to torch's current stream.
"""

import ctypes
from pathlib import Path

import tvm_ffi

LIBRARY = Path(__file__).resolve().parent / "build" / "libcuda_extension.so"


def _load():
    if not LIBRARY.exists():
        raise ImportError(f"{LIBRARY.name} is not built: run `bash utils/compile.sh`")
    module = tvm_ffi.load_module(str(LIBRARY))
    listing = ctypes.CDLL(str(LIBRARY)).binding_names
    listing.restype = ctypes.c_char_p
    return {name: module.get_function(name) for name in listing().decode().split()}


globals().update(_load())
