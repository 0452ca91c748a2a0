"""Which torch operators `model_new.py` may run: those that create tensors or look at them in another way. Fixed.

All that computes belongs into kernels. Names are those of the dispatcher, without overloads.
"""

_CREATION = """
    empty empty_like empty_strided empty_permuted new_empty new_empty_strided new_zeros new_ones new_full zeros
    zeros_like ones ones_like full full_like scalar_tensor zero_ fill_ resize_ set_ lift_fresh
"""
_VIEW = """
    view _unsafe_view reshape _reshape_alias as_strided expand permute transpose t squeeze unsqueeze flatten unflatten
    unfold select slice narrow split split_with_sizes chunk unbind diagonal detach alias view_as_real view_as_complex
    movedim swapaxes
"""
_COPY = "clone copy_ contiguous _to_copy to"  # changes of layout, dtype or device, without arithmetic

ALLOWED = frozenset((_CREATION + _VIEW + _COPY).split())


def forbidden(names):
    """Those of these operators ("aten.add.Tensor", "aten::add", ...) that are not allowed, sorted."""
    return sorted({n for n in names if n.replace("::", ".").split(".")[1] not in ALLOWED})
