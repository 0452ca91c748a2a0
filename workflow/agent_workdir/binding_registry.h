// What bindings need: a tensor type, checks, the current stream and REGISTER_BINDING. Fixed: the judge uses its own copy.
//
// Tensors cross from Python through DLPack (apache-tvm-ffi), without the headers of torch, which take some twenty times
// as long to compile.
#pragma once

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <cstdint>

using Tensor = tvm::ffi::TensorView;  // .data_ptr() .ndim() .shape() .size(i) .stride(i) .numel() .dtype() .device()

void add_binding(const char* name);  // binding.cpp

// Throws what Python sees as a RuntimeError.
inline void check(bool holds, const char* message) {
  if (!holds) TVM_FFI_THROW(RuntimeError) << message;
}

namespace binding {
template <typename T>
struct DType;  // a type that no tensor of `data<T>` can have does not compile
#define BINDING_DTYPE(T, CODE)                    \
  template <>                                     \
  struct DType<T> {                               \
    static constexpr DLDataTypeCode code = CODE;  \
  };
BINDING_DTYPE(float, kDLFloat)
BINDING_DTYPE(double, kDLFloat)
BINDING_DTYPE(int8_t, kDLInt)
BINDING_DTYPE(int16_t, kDLInt)
BINDING_DTYPE(int32_t, kDLInt)
BINDING_DTYPE(int64_t, kDLInt)
BINDING_DTYPE(uint8_t, kDLUInt)
BINDING_DTYPE(bool, kDLBool)
#undef BINDING_DTYPE
}  // namespace binding

// Whether the elements lie one after the other, last dimension fastest.
inline bool is_contiguous(const Tensor& t) {
  int64_t expected = 1;
  for (int32_t i = t.ndim() - 1; i >= 0; --i) {
    if (t.size(i) != 1 && t.stride(i) != expected) return false;
    expected *= t.size(i);
  }
  return true;
}

// First element of a contiguous tensor of type T. For half, bfloat16 and other types that C++ has no name for, check
// `.dtype()` and cast `raw_data`.
inline void* raw_data(const Tensor& t) {
  check(is_contiguous(t), "the tensor must be contiguous: call .contiguous() before");
  return t.data_ptr();
}

template <typename T>
T* data(const Tensor& t) {
  const DLDataType d = t.dtype();
  check(d.code == binding::DType<T>::code && d.bits == 8 * sizeof(T) && d.lanes == 1, "the tensor has another dtype");
  return static_cast<T*>(raw_data(t));
}

// The current stream of the tensor's device as torch has it (a cudaStream_t); null on a processor.
inline void* stream(const Tensor& t) { return TVMFFIEnvGetStream(t.device().device_type, t.device().device_id); }

// REGISTER_BINDING(name, function) makes `cuda_extension.name(...)` call the function. It may take Tensor, int64_t,
// double and bool, and return nothing or a number; outputs are tensors that Python made.
#define REGISTER_BINDING(NAME, FUNCTION)          \
  TVM_FFI_DLL_EXPORT_TYPED_FUNC(NAME, FUNCTION)   \
  namespace {                                     \
  struct Register_##NAME {                        \
    Register_##NAME() { add_binding(#NAME); }     \
  } const register_##NAME;                        \
  }
