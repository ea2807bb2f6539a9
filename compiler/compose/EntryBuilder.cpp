#include "compiler/compose/EntryBuilder.h"

using namespace mlir;

namespace diffc {

EntryBuilder::EntryBuilder(ModuleOp module, const std::string &name, int64_t firstUse, int64_t seed)
    : b(module.getContext()), nextUse(firstUse), seed(seed) {
  b.setInsertionPointToEnd(module.getBody());
  Location loc = NameLoc::get(b.getStringAttr(name));
  entry = b.create<train::EntryOp>(loc, name, b.getFunctionType({}, {}), ArrayAttr(), ArrayAttr());
  entry.getBody().emplaceBlock();
  b.setInsertionPointToEnd(&entry.getBody().front());
}

Value EntryBuilder::argument(RankedTensorType type, ArrayRef<NamedAttribute> attributes,
                             const std::string &name) {
  argumentTypes.push_back(type);
  argumentAttributes.push_back(b.getDictionaryAttr(attributes));
  return entry.getBody().front().addArgument(type, NameLoc::get(b.getStringAttr(name)));
}

Value EntryBuilder::input(const std::string &role, RankedTensorType type,
                          const std::string &graphInput) {
  Value &known = inputs[role];
  if (known)
    return known;
  SmallVector<NamedAttribute> attributes{b.getNamedAttr(train::kRoleAttr, b.getStringAttr(role))};
  if (!graphInput.empty())
    attributes.push_back(b.getNamedAttr(train::kInputAttr, b.getStringAttr(graphInput)));
  return known = argument(type, attributes, role);
}

Value EntryBuilder::scalar(const std::string &name, Type element, double initial) {
  Value &known = inputs["scalar " + name];
  if (!known)
    known = argument(RankedTensorType::get({}, element),
                     {b.getNamedAttr(train::kScalarAttr, b.getStringAttr(name)),
                      b.getNamedAttr(train::kInitialAttr, b.getF64FloatAttr(initial))},
                     name);
  return known;
}

Value EntryBuilder::read(const std::string &model, const std::string &parameter,
                         const std::string &role, RankedTensorType type) {
  Value &known = reads[model + "::" + parameter + "/" + role];
  if (!known) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&entry.getBody().front());
    known = b.create<train::ReadOp>(NameLoc::get(b.getStringAttr(parameter)), type,
                                    train::SlotAttr::get(b.getContext(), model, parameter, role));
  }
  return known;
}

void EntryBuilder::commit(const std::string &model, const std::string &parameter,
                          const std::string &role, Value value) {
  slots.push_back(train::SlotAttr::get(b.getContext(), model, parameter, role));
  states.push_back(value);
}

void EntryBuilder::output(const std::string &name, Value value) {
  names.push_back(b.getStringAttr(name));
  outputs.push_back(value);
}

Value EntryBuilder::draw(const std::string &distribution, ArrayRef<int64_t> shape, Value iteration,
                         Value firstSample) {
  Value key = scalar("seed", b.getI64Type(), static_cast<double>(seed));
  return b.create<train::DrawOp>(loc(), RankedTensorType::get(shape, f32()), key, iteration,
                                 firstSample, distribution, nextUse++);
}

SmallVector<Value> EntryBuilder::inlineGraph(train::GraphOp graph, ValueRange operands) {
  IRMapping mapping;
  Block &body = graph.getBody().front();
  mapping.map(body.getArguments(), operands);
  for (Operation &op : body.without_terminator())
    b.clone(op, mapping);
  SmallVector<Value> results;
  for (Value value : body.getTerminator()->getOperands())
    results.push_back(mapping.lookup(value));
  return results;
}

void EntryBuilder::finish() {
  b.create<train::CommitOp>(loc(), states, outputs, b.getArrayAttr(slots), b.getArrayAttr(names));
  entry.setFunctionType(b.getFunctionType(argumentTypes, {}));
  entry.setArgAttrsAttr(b.getArrayAttr(argumentAttributes));
}

Value EntryBuilder::integer(int64_t value) {
  auto type = RankedTensorType::get({}, b.getI64Type());
  return b.create<nn::ConstantOp>(loc(), DenseElementsAttr::get(type, ArrayRef<int64_t>{value}));
}

Value EntryBuilder::table(ArrayRef<float> values) {
  auto type = RankedTensorType::get({static_cast<int64_t>(values.size())}, f32());
  return b.create<nn::ConstantOp>(loc(), DenseElementsAttr::get(type, values));
}

Value EntryBuilder::cast(Value x, Type element) {
  if (nn::tensorType(x).getElementType() == element)
    return x;
  return b.create<nn::CastOp>(loc(), x, element);
}

Value EntryBuilder::perSample(Value x, int64_t rank) {
  SmallVector<int64_t> shape(rank, 1);
  shape[0] = nn::tensorType(x).getDimSize(0);
  return nn::reshape(b, x, shape);
}

Value EntryBuilder::meanOfSample(Value x) {
  auto axes = llvm::to_vector(llvm::seq<int64_t>(1, nn::tensorType(x).getRank()));
  return b.create<nn::ReduceMeanOp>(loc(), x, axes, false);
}

Value EntryBuilder::sumAll(Value x) {
  auto axes = llvm::to_vector(llvm::seq<int64_t>(0, nn::tensorType(x).getRank()));
  return b.create<nn::ReduceSumOp>(loc(), x, axes, false);
}

} // namespace diffc
