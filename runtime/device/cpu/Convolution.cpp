#include "runtime/device/cpu/CallBase.h"

namespace diffrun {
namespace {

using Desc = dnnl::memory::desc;

/// A tensor of the call: plain in the plan's memory, maybe blocked inside.
struct Side {
  Desc plain, inner;
  int64_t offset = -1; ///< of the blocked form in scratch; -1: the same
  dnnl::reorder move;  ///< into the blocked form, or out of it
  dnnl::memory outside, inside;
};

class ConvolutionCall final : public LibraryCall {
public:
  explicit ConvolutionCall(const proto::Convolution &c) : kind(c.kind()), hasBias(c.bias()) {
    auto type = dnnlType(c.dtype());
    dnnl::memory::dims x = toDims(c.x_shape()), w = toDims(c.w_shape()), y = toDims(c.y_shape());
    if (c.groups() > 1) {
      w[0] /= c.groups();
      w.insert(w.begin(), c.groups());
    }
    dnnl::memory::dims strides = toDims(c.strides()), low = toDims(c.pads_low()),
                       high = toDims(c.pads_high()), dilations = toDims(c.dilations());
    for (auto &dilation : dilations)
      --dilation; // oneDNN counts the gaps
    auto any = [&](const dnnl::memory::dims &shape) {
      return Desc(shape, type, dnnl::memory::format_tag::any);
    };
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    auto algorithm = dnnl::algorithm::convolution_direct;
    auto forwardDesc = [&](bool bias) {
      using Forward = dnnl::convolution_forward::desc;
      auto training = dnnl::prop_kind::forward_training;
      if (bias)
        return Forward(training, algorithm, any(x), any(w), dense({y[1]}, type), any(y), strides,
                       dilations, low, high);
      return Forward(training, algorithm, any(x), any(w), any(y), strides, dilations, low, high);
    };
    dnnl::convolution_forward::primitive_desc forward(forwardDesc(c.bias()), attributes,
                                                      cpuEngine());
    sides.resize(3);
    auto set = [&](int which, const dnnl::memory::dims &shape, const Desc &inner) {
      sides[which].plain = dense(shape, type);
      sides[which].inner = inner;
    };
    if (kind == proto::Convolution::FORWARD) {
      primitive = dnnl::convolution_forward(forward);
      scratchpad = forward.scratchpad_desc();
      set(0, x, forward.src_desc()), set(1, w, forward.weights_desc());
      set(2, y, forward.dst_desc());
      ids = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    } else if (kind == proto::Convolution::INPUT_GRAD) {
      dnnl::convolution_backward_data::desc desc(algorithm, any(x), any(w), any(y), strides,
                                                 dilations, low, high);
      dnnl::convolution_backward_data::primitive_desc pd(desc, attributes, cpuEngine(), forward);
      primitive = dnnl::convolution_backward_data(pd);
      scratchpad = pd.scratchpad_desc();
      set(0, y, pd.diff_dst_desc()), set(1, w, pd.weights_desc());
      set(2, x, pd.diff_src_desc());
      ids = {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC};
    } else {
      dnnl::convolution_backward_weights::desc desc(algorithm, any(x), any(w), any(y), strides,
                                                    dilations, low, high);
      dnnl::convolution_backward_weights::primitive_desc pd(desc, attributes, cpuEngine(), forward);
      primitive = dnnl::convolution_backward_weights(pd);
      scratchpad = pd.scratchpad_desc();
      set(0, x, pd.src_desc()), set(1, y, pd.diff_dst_desc());
      set(2, w, pd.diff_weights_desc());
      ids = {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS};
    }
    prepare(type, y[1]);
  }

  int64_t scratchBytes() const override { return total; }

  Status bind(const std::vector<void *> &operands, void *result, void *scratch) override {
    // Once: giving oneDNN a blocked tensor's memory zeroes its padding.
    return guarded("convolution", [&] {
      char *base = static_cast<char *>(scratch);
      for (int i = 0; i < 3; ++i) {
        Side &side = sides[i];
        void *data = i < 2 ? operands[i] : result;
        side.outside.set_data_handle(data);
        side.inside.set_data_handle(side.offset < 0 ? data : base + side.offset);
      }
      if (hasBias)
        arguments.at(DNNL_ARG_BIAS).set_data_handle(operands[2]);
      arguments.at(DNNL_ARG_SCRATCHPAD).set_data_handle(base);
    });
  }

  Status run() override {
    return guarded("convolution", [&] {
      for (int i = 0; i < 2; ++i)
        if (sides[i].offset >= 0)
          sides[i].move.execute(cpuStream(), sides[i].outside, sides[i].inside);
      primitive.execute(cpuStream(), arguments);
      if (sides[2].offset >= 0)
        sides[2].move.execute(cpuStream(), sides[2].inside, sides[2].outside);
    });
  }

private:
  void prepare(dnnl::memory::data_type type, int64_t outputs) {
    total = aligned64(static_cast<int64_t>(scratchpad.get_size()));
    for (int i = 0; i < 3; ++i) {
      Side &side = sides[i];
      side.outside = dnnl::memory(side.plain, cpuEngine(), nullptr);
      side.inside = dnnl::memory(side.inner, cpuEngine(), nullptr);
      if (side.inner != side.plain) {
        side.offset = total;
        total += aligned64(static_cast<int64_t>(side.inner.get_size()));
        if (i < 2)
          side.move = dnnl::reorder(side.outside, side.inside);
        else
          side.move = dnnl::reorder(side.inside, side.outside);
      }
      arguments.emplace(ids[i], side.inside);
    }
    // dnnl::memory is a handle: the map's copies see set_data_handle.
    if (hasBias)
      arguments.emplace(DNNL_ARG_BIAS, dnnl::memory(dense({outputs}, type), cpuEngine(), nullptr));
    arguments.emplace(DNNL_ARG_SCRATCHPAD, dnnl::memory(scratchpad, cpuEngine(), nullptr));
  }

  proto::Convolution::Kind kind;
  bool hasBias;
  dnnl::primitive primitive;
  Desc scratchpad;
  std::vector<Side> sides; ///< two operands, one result
  std::vector<int> ids;
  std::unordered_map<int, dnnl::memory> arguments;
  int64_t total = 0;
};

} // namespace

Result<std::unique_ptr<LibraryCall>> makeConvolution(const proto::Convolution &convolution) {
  try {
    return std::unique_ptr<LibraryCall>(new ConvolutionCall(convolution));
  } catch (const dnnl::error &error) {
    return Status::machine(std::string("oneDNN refuses a convolution: ") + error.what());
  }
}

} // namespace diffrun
