#include "compiler/planwriter/ProgramProto.h"

#include "runtime/core/DType.h"

namespace ev = diffrun::evaluate;
namespace proto = diffrun::proto;

namespace diffc {
namespace {

void writeType(const ev::TensorType &type, proto::TensorType &out) {
  out.set_dtype(static_cast<proto::DType>(type.dtype));
  for (int64_t extent : type.shape)
    out.add_shape(extent);
}

struct AttributeWriter {
  proto::Attribute &out;
  void operator()(int64_t value) const { out.set_integer(value); }
  void operator()(double value) const { out.set_real(value); }
  void operator()(const std::string &value) const { out.set_text(value); }
  void operator()(const std::vector<int64_t> &values) const {
    out.mutable_integers();
    for (int64_t value : values)
      out.mutable_integers()->add_values(value);
  }
  void operator()(const std::vector<double> &values) const {
    out.mutable_reals();
    for (double value : values)
      out.mutable_reals()->add_values(value);
  }
  void operator()(const ev::Tensor &tensor) const {
    proto::Constant &constant = *out.mutable_tensor();
    writeType(tensor.type, *constant.mutable_type());
    std::string bytes(tensor.type.count() * diffrun::byteSize(tensor.type.dtype), '\0');
    ev::toBytes(tensor, bytes.data());
    constant.set_data(std::move(bytes));
  }
};

} // namespace

void writeProgram(const ev::Graph &graph, proto::Program &out) {
  for (const ev::TensorType &type : graph.values)
    writeType(type, *out.add_values());
  for (const ev::Node &node : graph.nodes) {
    proto::Node &made = *out.add_nodes();
    made.set_op(node.op);
    made.set_location(node.location);
    for (auto &[key, value] : node.attributes)
      std::visit(AttributeWriter{(*made.mutable_attributes())[key]}, value);
    for (int64_t id : node.operands)
      made.add_operands(id);
    for (int64_t id : node.results)
      made.add_results(id);
  }
}

} // namespace diffc
