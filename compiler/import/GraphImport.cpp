#include "compiler/import/GraphImport.h"

#include "dialects/nn/IR/Evaluation.h"

#include <mlir/IR/Matchers.h>
#include <mlir/IR/Verifier.h>

using namespace mlir;
using diffrun::Result;
using diffrun::Status;

namespace diffc {
namespace {

std::string domainOf(const onnx::NodeProto &node) {
  return node.domain() == "ai.onnx" ? "" : node.domain();
}

/// Functions that call each other, or branches within branches, deeper than any
/// model has them: a cycle.
constexpr int kDeepest = 64;

} // namespace

Value ImportScope::find(const std::string &name) const {
  for (const ImportScope *scope = this; scope; scope = scope->around)
    if (auto found = scope->values.find(name); found != scope->values.end())
      return found->second;
  return {};
}

const std::string *ImportScope::findMissing(const std::string &name) const {
  for (const ImportScope *scope = this; scope; scope = scope->around)
    if (auto found = scope->missing.find(name); found != scope->missing.end())
      return &found->second;
  return nullptr;
}

int64_t ImportScope::opset(const std::string &domain) const {
  auto found = opsets.find(domain);
  return found == opsets.end() ? 0 : found->second;
}

const std::map<std::string, GraphImport::ControlFlow> &GraphImport::controlFlow() {
  static const std::map<std::string, ControlFlow> table = {{"If", &GraphImport::importIf}};
  return table;
}

const onnx::FunctionProto *GraphImport::function(const onnx::NodeProto &node) const {
  for (const auto &function : file.model().functions())
    if (function.name() == node.op_type() && function.domain() == node.domain())
      return &function;
  return nullptr;
}

//===--- Before the import -------------------------------------------------===//

void GraphImport::listUnknown(const Nodes &nodes, const ImportScope &scope, int depth,
                              std::string &list, int &count) const {
  for (const auto &node : nodes) {
    if (const onnx::FunctionProto *callee = function(node)) {
      ImportScope inside = functionScope(*callee, scope, node.name());
      if (depth < kDeepest)
        listUnknown(callee->node(), inside, depth + 1, list, count);
      continue;
    }
    int64_t opset = scope.opset(domainOf(node));
    auto entry = handlers().find(node.op_type());
    bool known =
        domainOf(node).empty() && (controlFlow().count(node.op_type()) ||
                                   (entry != handlers().end() && opset >= entry->second.since));
    if (known)
      continue;
    ++count;
    list += "\n  node \"" + scope.prefix + node.name() +
            "\": " + (domainOf(node).empty() ? "" : node.domain() + ".") + node.op_type() + "-" +
            std::to_string(opset);
  }
}

ImportScope GraphImport::functionScope(const onnx::FunctionProto &callee, const ImportScope &scope,
                                       const std::string &call) {
  ImportScope inside;
  inside.prefix = scope.prefix + call + "/";
  for (const auto &set : callee.opset_import())
    inside.opsets[set.domain() == "ai.onnx" ? "" : set.domain()] = set.version();
  return inside;
}

/// Nodes so that each comes after what it reads, in its branches too.
Result<std::vector<const onnx::NodeProto *>>
GraphImport::topologicalOrder(const Nodes &nodes, const ImportScope &scope) const {
  std::map<std::string, int> maker; // value name -> node index
  for (int i = 0; i < nodes.size(); ++i)
    for (const std::string &output : nodes[i].output())
      if (!output.empty() && !maker.emplace(output, i).second)
        return Status::invalid(file.path() + ": two nodes make the value \"" + scope.prefix +
                               output + "\"");
  std::vector<std::vector<std::string>> reads(static_cast<size_t>(nodes.size()));
  for (int i = 0; i < nodes.size(); ++i) {
    std::set<std::string> names;
    collectReads(nodes[i], names);
    reads[static_cast<size_t>(i)].assign(names.begin(), names.end());
  }
  std::vector<const onnx::NodeProto *> order;
  std::vector<int> state(static_cast<size_t>(nodes.size()), 0); // 0 new, 1 open, 2 done
  for (int root = 0; root < nodes.size(); ++root) {
    std::vector<std::pair<int, size_t>> stack; // node, next name that it reads
    if (state[root] == 0)
      stack.emplace_back(root, 0), state[root] = 1;
    while (!stack.empty()) {
      auto &[at, next] = stack.back();
      if (next == reads[at].size()) {
        state[at] = 2;
        order.push_back(&nodes[at]);
        stack.pop_back();
        continue;
      }
      auto from = maker.find(reads[at][next++]);
      if (from == maker.end() || state[from->second] == 2)
        continue;
      if (state[from->second] == 1)
        return Status::invalid(file.path() + ": the graph is cyclic: node \"" + scope.prefix +
                               nodes[at].name() + "\" reads what depends on it");
      state[from->second] = 1;
      stack.emplace_back(from->second, 0);
    }
  }
  return order;
}

void GraphImport::collectReads(const onnx::NodeProto &node, std::set<std::string> &names) {
  names.insert(node.input().begin(), node.input().end());
  for (const auto &attribute : node.attribute())
    if (attribute.has_g()) {
      for (const auto &inner : attribute.g().node())
        collectReads(inner, names);
      for (const auto &output : attribute.g().output()) // an outer value, passed on
        names.insert(output.name());
    }
}

std::set<std::string> GraphImport::readAsData(const Nodes &nodes) const {
  std::set<std::string> names;
  for (const auto &node : nodes) {
    auto entry = handlers().find(node.op_type());
    if (entry == handlers().end() || function(node)) {
      collectReads(node, names);
      continue;
    }
    for (int i = 0; i < node.input_size(); ++i)
      if (!llvm::is_contained(entry->second.compileTime, i))
        names.insert(node.input(i));
  }
  return names;
}

//===--- Nodes -------------------------------------------------------------===//

Status GraphImport::importNodes(const Nodes &nodes, ImportScope &scope) {
  std::string unknown;
  int count = 0;
  listUnknown(nodes, scope, 0, unknown, count);
  if (count)
    return Status::invalid(file.path() + ": " + std::to_string(count) +
                           (count == 1 ? " node has" : " nodes have") +
                           " an operator that diffc does not import:" + unknown);
  DIFFRUN_ASSIGN(auto order, topologicalOrder(nodes, scope));
  for (const onnx::NodeProto *node : order)
    DIFFRUN_RETURN_IF_ERROR(importNode(*node, scope));
  return {};
}

Status GraphImport::importNode(const onnx::NodeProto &node, ImportScope &scope) {
  std::string where =
      file.path() + ": node \"" + scope.prefix + node.name() + "\" (" + node.op_type() + ")";
  NodeImport::Values operands;
  for (const std::string &name : node.input()) {
    Value found = name.empty() ? Value() : scope.find(name);
    if (const std::string *why = scope.findMissing(name); !found && why)
      return Status::invalid(*why);
    if (!name.empty() && !found)
      return Status::invalid(where + " reads \"" + name + "\", which nothing makes");
    operands.push_back(found);
  }
  if (node.output_size() == 0)
    return Status::invalid(where + " has no output");
  const std::string label = scope.prefix + (node.name().empty() ? node.output(0) : node.name());
  NodeImport in(file, node, scope.opset(domainOf(node)), builder,
                NameLoc::get(builder.getStringAttr(label)), std::move(operands));
  if (const onnx::FunctionProto *callee = function(node))
    return importCall(*callee, in, scope);
  if (auto graphs = controlFlow().find(node.op_type()); graphs != controlFlow().end())
    return (this->*graphs->second)(node, scope, in);

  const HandlerEntry &handler = handlers().at(node.op_type());
  int required = handler.required == HandlerEntry::kAll
                     ? std::max<int>(1, static_cast<int>(in.operands.size()))
                     : handler.required;
  for (int i = 0; i < required; ++i)
    if (!in.operand(i))
      return in.fail("input " + std::to_string(i) + " is missing");
  Operation *before = block().empty() ? nullptr : &block().back();
  DIFFRUN_ASSIGN(auto results, handler.handle(in));
  DIFFRUN_RETURN_IF_ERROR(verifyNew(before, in));
  foldNew(before, results);
  return bind(in, results, scope);
}

/// Gives a node's results their names. A result that there is none of is an
/// error only where something reads it.
Status GraphImport::bind(const NodeImport &in, const NodeImport::Values &results,
                         ImportScope &scope) const {
  for (size_t i = 0; i < static_cast<size_t>(in.node.output_size()); ++i) {
    const std::string &output = in.node.output(static_cast<int>(i));
    if (output.empty()) // not wanted; those behind it keep their places
      continue;
    if (i < results.size() && results[i])
      scope.values[output] = results[i];
    else
      scope.missing[output] = in.fail("output \"" + output + "\" is not supported").message();
  }
  return {};
}

//===--- Functions and branches --------------------------------------------===//

/// A function's body in place of its call. Its attributes are the call's, or
/// the function's own defaults.
Status GraphImport::importCall(const onnx::FunctionProto &callee, const NodeImport &call,
                               ImportScope &scope) {
  if (++depth > kDeepest)
    return call.fail("functions call each other without end");
  const std::string &name = call.node.name().empty() ? call.node.op_type() : call.node.name();
  ImportScope inside = functionScope(callee, scope, name);
  for (int i = 0; i < callee.input_size(); ++i)
    if (Value value = call.operand(static_cast<size_t>(i)))
      inside.values[callee.input(i)] = value;
  Nodes body = callee.node();
  for (auto &node : body) {
    // An input that the call leaves out is left out inside too.
    for (auto &input : *node.mutable_input())
      for (int i = 0; i < callee.input_size(); ++i)
        if (input == callee.input(i) && !call.operand(static_cast<size_t>(i)))
          input.clear();
    auto *attributes = node.mutable_attribute();
    for (int i = attributes->size(); i-- > 0;) {
      std::string from = attributes->Get(i).ref_attr_name();
      if (from.empty())
        continue;
      const onnx::AttributeProto *given = call.find(from.c_str());
      if (!given) {
        attributes->DeleteSubrange(i, 1); // the operator's own default
        continue;
      }
      std::string as = attributes->Get(i).name();
      *attributes->Mutable(i) = *given;
      attributes->Mutable(i)->set_name(as);
    }
  }
  bodies.push_back(std::move(body));
  DIFFRUN_RETURN_IF_ERROR(importNodes(bodies.back(), inside));
  NodeImport::Values results;
  for (const std::string &output : callee.output())
    results.push_back(inside.find(output));
  --depth;
  return bind(call, results, scope);
}

/// The values that a branch passes on.
Result<NodeImport::Values> GraphImport::importBranch(const onnx::GraphProto &branch,
                                                     const NodeImport &node,
                                                     const ImportScope &scope) {
  if (++depth > kDeepest)
    return node.fail("branches lie too deep in each other");
  ImportScope inside;
  inside.around = &scope;
  inside.prefix = scope.prefix + node.node.name() + "/";
  inside.opsets = scope.opsets;
  for (const auto &tensor : branch.initializer()) {
    if (!elementType(*builder.getContext(), tensor.data_type()))
      return node.fail("tensor \"" + tensor.name() + "\" has element type " +
                       std::to_string(tensor.data_type()) + ", which diffc does not have");
    DIFFRUN_ASSIGN(auto elements, tensorElements(*builder.getContext(), file, tensor));
    inside.values[tensor.name()] = builder.create<nn::ConstantOp>(node.loc, elements);
  }
  DIFFRUN_RETURN_IF_ERROR(importNodes(branch.node(), inside));
  NodeImport::Values results;
  for (const auto &output : branch.output()) {
    Value value = inside.find(output.name());
    if (!value)
      return node.fail("its branch passes on \"" + output.name() + "\", which nothing makes");
    results.push_back(value);
  }
  --depth;
  return results;
}

/// A branch that is known when compiling stands in place of the node; the other
/// one may hold anything. Otherwise both are computed and one is selected.
Status GraphImport::importIf(const onnx::NodeProto &node, ImportScope &scope, NodeImport &in) {
  const auto *thenBranch = in.find("then_branch"), *elseBranch = in.find("else_branch");
  if (!in.operand(0) || !thenBranch || !elseBranch || !thenBranch->has_g() || !elseBranch->has_g())
    return in.fail("a condition and two branches are needed");
  if (in.type(0).getNumElements() != 1 || !in.type(0).getElementType().isInteger(1))
    return in.fail("the condition must be one boolean");
  if (auto known = in.constantIntegers(0)) {
    const auto &taken = (*known)[0] ? thenBranch->g() : elseBranch->g();
    DIFFRUN_ASSIGN(auto results, importBranch(taken, in, scope));
    return bind(in, results, scope);
  }
  DIFFRUN_ASSIGN(auto yes, importBranch(thenBranch->g(), in, scope));
  DIFFRUN_ASSIGN(auto no, importBranch(elseBranch->g(), in, scope));
  if (ValueRange(yes).getTypes() != ValueRange(no).getTypes())
    return in.fail("its condition depends on data and its branches differ in type",
                   "export the model for one of the branches");
  Value condition = nn::reshape(builder, in.operand(0), {});
  NodeImport::Values results;
  for (auto [a, b] : llvm::zip_equal(yes, no)) {
    DIFFRUN_ASSIGN(auto selected, in.build<nn::SelectOp>(condition, a, b));
    results.push_back(selected[0]);
  }
  return bind(in, results, scope);
}

//===--- After a node ------------------------------------------------------===//

/// Fails as the node's error where an operation after `before` does not verify:
/// handlers check shapes, the operations themselves which element types they have.
Status GraphImport::verifyNew(Operation *before, NodeImport &in) {
  std::string message;
  ScopedDiagnosticHandler collect(builder.getContext(), [&](Diagnostic &d) {
    message += (message.empty() ? "" : "; ") + d.str();
    return success();
  });
  Block &block = this->block();
  Operation *op = before ? before->getNextNode() : block.empty() ? nullptr : &block.front();
  for (; op; op = op->getNextNode())
    if (failed(verify(op)))
      return in.fail(message);
  return {};
}

/// Replaces the new operations (after `before`) whose operands are constants
/// by constants; `results` follow.
void GraphImport::foldNew(Operation *before, NodeImport::Values &results) {
  constexpr int64_t kLargest = 1 << 22; // elements: bigger tables stay computed
  Block &block = this->block();
  Operation *op = before ? before->getNextNode() : block.empty() ? nullptr : &block.front();
  for (Operation *next = nullptr; op; op = next) {
    next = op->getNextNode();
    if (isa<nn::ConstantOp>(op) || op->getNumResults() != 1 ||
        nn::tensorType(op->getResult(0)).getNumElements() > kLargest)
      continue;
    SmallVector<Attribute> operands;
    for (Value operand : op->getOperands()) {
      DenseElementsAttr attr;
      if (!matchPattern(operand, m_Constant(&attr)))
        break;
      operands.push_back(attr);
    }
    if (operands.size() != op->getNumOperands())
      continue;
    SmallVector<DenseElementsAttr> folded = nn::evaluateConstants(op, operands);
    if (folded.size() != 1)
      continue;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(op);
    Value constant = builder.create<nn::ConstantOp>(op->getLoc(), folded[0]);
    for (Value &result : results)
      if (result == op->getResult(0))
        result = constant;
    op->getResult(0).replaceAllUsesWith(constant);
    op->erase();
  }
}

} // namespace diffc
