// Import of matrix products.
#include "compiler/import/NodeImport.h"

using namespace mlir;
using namespace diffc::nn;

namespace diffc {
namespace {

using Outcome = NodeImport::Outcome;

/// A vector operand counts as a one-row (left) or one-column (right) matrix;
/// the added dimension leaves the result again.
Outcome matmul(NodeImport &in) {
  Value a = in.operand(0), b = in.operand(1);
  int64_t ra = in.type(0).getRank(), rb = in.type(1).getRank();
  if (ra == 0 || rb == 0)
    return in.fail("an operand is a scalar");
  if (ra == 1)
    a = nn::reshape(in.builder, a, {1, in.type(0).getDimSize(0)});
  if (rb == 1)
    b = nn::reshape(in.builder, b, {in.type(1).getDimSize(0), 1});
  DIFFRUN_ASSIGN(auto product, in.build<MatmulOp>(a, b, false, false));
  SmallVector<int64_t> shape(tensorType(product[0]).getShape());
  if (rb == 1)
    shape.pop_back();
  if (ra == 1)
    shape.erase(shape.end() - (rb == 1 ? 1 : 2));
  return NodeImport::Values{nn::reshape(in.builder, product[0], shape)};
}

Outcome gemm(NodeImport &in) {
  Type element = in.type(0).getElementType();
  DIFFRUN_ASSIGN(auto product,
                 in.build<MatmulOp>(in.operand(0), in.operand(1), in.integer("transA", 0) != 0,
                                    in.integer("transB", 0) != 0));
  Value y = product[0];
  auto scaled = [&](Value x, double factor) -> Value {
    if (factor == 1)
      return x;
    return in.builder.create<MulOp>(in.loc, x, scalar(in.builder, in.loc, factor, element));
  };
  y = scaled(y, in.real("alpha", 1));
  if (!in.operand(2) || in.real("beta", 1) == 0)
    return NodeImport::Values{y};
  return in.build<AddOp>(y, scaled(in.operand(2), in.real("beta", 1)));
}

} // namespace

void addContractionHandlers(HandlerTable &t) {
  t["MatMul"] = {matmul, 1, 2};
  t["Gemm"] = {gemm, 7, 2};
}

} // namespace diffc
