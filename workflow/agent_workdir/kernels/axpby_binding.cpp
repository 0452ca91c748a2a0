// Checks tensors, takes them apart and starts the launcher. The same file serves both backends.
#include "../binding_registry.h"

extern "C" void axpby_launcher(float* out, const float* alpha, const float* x, const float* y, float beta, int64_t rows,
                               int64_t columns, int config, void* stream);

static void axpby_forward(Tensor out, Tensor alpha, Tensor x, Tensor y, double beta, int64_t config) {
  const int64_t columns = alpha.numel();
  check(x.numel() == y.numel() && x.numel() == out.numel() && x.numel() % columns == 0, "axpby: sizes do not match");
  axpby_launcher(data<float>(out), data<float>(alpha), data<float>(x), data<float>(y), static_cast<float>(beta),
                 x.numel() / columns, columns, static_cast<int>(config), stream(x));
}

REGISTER_BINDING(axpby_forward, axpby_forward)
