#include "runtime/device/cpu/CallBase.h"

namespace diffrun {
namespace {

class MatmulCall final : public LibraryCall {
public:
  explicit MatmulCall(const proto::Matmul &m) {
    auto type = dnnlType(m.dtype());
    using Desc = dnnl::memory::desc;
    Desc a(toDims(m.a_shape()), type, toDims(m.a_strides()));
    Desc b(toDims(m.b_shape()), type, toDims(m.b_strides()));
    dnnl::memory::dims shape = toDims(m.c_shape());
    Desc c = dense(shape, type);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    auto describe = [&] {
      if (!m.bias())
        return dnnl::matmul::desc(a, b, c);
      dnnl::memory::dims row(shape.size(), 1);
      row.back() = shape.back();
      return dnnl::matmul::desc(a, b, dense(row, type), c);
    };
    dnnl::matmul::primitive_desc pd(describe(), attributes, cpuEngine());
    scratch = aligned64(static_cast<int64_t>(pd.scratchpad_desc().get_size()));
    primitive = dnnl::matmul(pd);
    arguments = {{DNNL_ARG_SRC, dnnl::memory(pd.src_desc(), cpuEngine(), nullptr)},
                 {DNNL_ARG_WEIGHTS, dnnl::memory(pd.weights_desc(), cpuEngine(), nullptr)},
                 {DNNL_ARG_DST, dnnl::memory(pd.dst_desc(), cpuEngine(), nullptr)},
                 {DNNL_ARG_SCRATCHPAD, dnnl::memory(pd.scratchpad_desc(), cpuEngine(), nullptr)}};
    if (m.bias())
      arguments[DNNL_ARG_BIAS] = dnnl::memory(pd.bias_desc(), cpuEngine(), nullptr);
  }

  int64_t scratchBytes() const override { return scratch; }

  Status bind(const std::vector<void *> &operands, void *result, void *scratchMemory) override {
    return guarded("matmul", [&] {
      arguments.at(DNNL_ARG_SRC).set_data_handle(operands[0]);
      arguments.at(DNNL_ARG_WEIGHTS).set_data_handle(operands[1]);
      if (operands.size() > 2)
        arguments.at(DNNL_ARG_BIAS).set_data_handle(operands[2]);
      arguments.at(DNNL_ARG_DST).set_data_handle(result);
      arguments.at(DNNL_ARG_SCRATCHPAD).set_data_handle(scratchMemory);
    });
  }

  Status run() override {
    return guarded("matmul", [&] { primitive.execute(cpuStream(), arguments); });
  }

private:
  int64_t scratch = 0;
  dnnl::matmul primitive;
  std::unordered_map<int, dnnl::memory> arguments;
};

} // namespace

Result<std::unique_ptr<LibraryCall>> makeMatmul(const proto::Matmul &matmul) {
  try {
    return std::unique_ptr<LibraryCall>(new MatmulCall(matmul));
  } catch (const dnnl::error &error) {
    return Status::machine(std::string("oneDNN refuses a matmul: ") + error.what());
  }
}

} // namespace diffrun
