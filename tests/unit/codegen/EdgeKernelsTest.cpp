// Kernels where arithmetic has an edge: integers, NaN, booleans, nothing at all,
// and more elements than 32 bits can count. By values, and by the evaluator.
#include "dialects/nn/IR/Builders.h"
#include "dialects/nn/IR/Evaluation.h"
#include "tests/unit/codegen/Compiled.h"

#include <mlir/Parser/Parser.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <sys/mman.h>

namespace diffc::test {
namespace {

namespace ev = diffrun::evaluate;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

/// One function of nn operations whose kernels are compiled each by itself.
class Kernels {
public:
  explicit Kernels(const std::string &function) {
    loadDialects(context);
    module = mlir::parseSourceString<mlir::ModuleOp>(function, &context);
    EXPECT_TRUE(module);
    fuse(context, *module, true);
    compiled = std::make_unique<Compiled>(context);
    module->walk([&](nn::KernelOp kernel) {
      kernels.push_back(kernel);
      compiled->add(kernel);
    });
    compiled->link();
  }

  nn::KernelOp only() {
    EXPECT_EQ(kernels.size(), 1u);
    return kernels.front();
  }

  /// The function's results from the kernels, on bytes of its arguments.
  std::vector<std::vector<char>> run(std::vector<std::vector<char>> arguments) {
    mlir::func::FuncOp function = *module->getOps<mlir::func::FuncOp>().begin();
    mlir::Block &block = function.getBody().front();
    llvm::DenseMap<mlir::Value, size_t> at;
    std::vector<std::vector<char>> memory = std::move(arguments);
    EXPECT_EQ(memory.size(), block.getNumArguments());
    for (mlir::BlockArgument argument : block.getArguments()) {
      EXPECT_EQ(static_cast<int64_t>(memory[argument.getArgNumber()].size()),
                nn::byteSize(argument.getType()));
      at[argument] = argument.getArgNumber();
    }
    auto add = [&](mlir::Value value) {
      at[value] = memory.size();
      memory.emplace_back(static_cast<size_t>(nn::byteSize(value.getType())), '\x5a');
    };
    for (mlir::Operation &op : block.without_terminator()) {
      if (auto constant = llvm::dyn_cast<nn::ConstantOp>(op)) {
        add(constant.getResult());
        ev::toBytes(*nn::toTensor(llvm::cast<mlir::DenseElementsAttr>(constant.getValue())),
                    memory.back().data());
        continue;
      }
      if (auto view = llvm::dyn_cast<nn::ReshapeOp>(op)) {
        at[view.getResult()] = at.at(view.getInput());
        continue;
      }
      for (mlir::Value result : op.getResults())
        add(result);
      std::vector<void *> buffers;
      for (mlir::Value operand : op.getOperands())
        buffers.push_back(memory[at.at(operand)].data());
      for (mlir::Value result : op.getResults())
        buffers.push_back(memory[at.at(result)].data());
      compiled->run(llvm::cast<nn::KernelOp>(op), buffers);
    }
    std::vector<std::vector<char>> results;
    for (mlir::Value value : block.getTerminator()->getOperands())
      results.push_back(memory[at.at(value)]);
    return results;
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::unique_ptr<Compiled> compiled;
  std::vector<nn::KernelOp> kernels;
};

ev::Tensor tensorOf(diffrun::DType dtype, std::vector<int64_t> shape,
                    const std::vector<double> &values) {
  ev::Tensor tensor({dtype, std::move(shape)});
  for (size_t i = 0; i < tensor.real.size(); ++i)
    tensor.real[i] = values[i];
  for (size_t i = 0; i < tensor.integer.size(); ++i)
    tensor.integer[i] = ev::saturate(values[i], tensor.type.dtype);
  return tensor;
}
std::vector<char> bytesOf(const ev::Tensor &tensor) {
  std::vector<char> bytes(
      static_cast<size_t>(tensor.type.count() * diffrun::byteSize(tensor.type.dtype)));
  ev::toBytes(tensor, bytes.data());
  return bytes;
}
template <typename T> std::vector<char> raw(const std::vector<T> &values) {
  std::vector<char> bytes(values.size() * sizeof(T));
  if (!bytes.empty())
    std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
template <typename T> std::vector<T> as(const std::vector<char> &bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty())
    std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// `function` computed by kernels and by the evaluator on the same arguments:
/// every bit is the same, NaN for NaN.
void expectEvaluator(const std::string &function, const std::vector<ev::Tensor> &arguments) {
  SCOPED_TRACE(function);
  Kernels kernels(function);
  ASSERT_FALSE(::testing::Test::HasFatalFailure());
  std::vector<std::vector<char>> bytes;
  for (const ev::Tensor &argument : arguments)
    bytes.push_back(bytesOf(argument));
  auto got = kernels.run(bytes);

  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  loadDialects(context);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(function, &context);
  mlir::Block &block = (*module->getOps<mlir::func::FuncOp>().begin()).getBody().front();
  nn::EvaluationGraph graph;
  for (mlir::Value argument : block.getArguments())
    ASSERT_TRUE(graph.number(argument).ok());
  for (mlir::Operation &op : block.without_terminator())
    ASSERT_TRUE(graph.append(&op).ok());
  std::vector<std::optional<ev::Tensor>> values(graph.graph().values.size());
  for (size_t i = 0; i < arguments.size(); ++i)
    values[i] = ev::fromBytes(graph.graph().values[i], bytes[i].data());
  auto status =
      ev::evaluate(graph.graph(), 0, static_cast<int64_t>(graph.graph().nodes.size()), values);
  ASSERT_TRUE(status.ok()) << status.message();
  for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands())) {
    ev::Tensor right = *values[static_cast<size_t>(*graph.number(value))];
    ev::Tensor computed = ev::fromBytes(right.type, got[i].data());
    right = ev::fromBytes(right.type, bytesOf(right).data());
    for (size_t k = 0; k < right.real.size(); ++k)
      if (!std::isnan(right.real[k]) || !std::isnan(computed.real[k])) {
        EXPECT_EQ(computed.real[k], right.real[k]) << "result " << i << ", element " << k;
      }
    for (size_t k = 0; k < right.integer.size(); ++k)
      EXPECT_EQ(computed.integer[k], right.integer[k]) << "result " << i << ", element " << k;
  }
}

std::string typeText(const std::vector<int64_t> &shape, const std::string &element) {
  std::string text = "tensor<";
  for (int64_t extent : shape)
    text += std::to_string(extent) + "x";
  return text + element + ">";
}

//===--- Integers ------------------------------------------------------------===//

template <typename T> void checkDivision(const std::string &element, int64_t count) {
  std::string type = typeText({count}, element);
  Kernels kernels("func.func @f(%a: " + type + ", %b: " + type + ") -> " + type +
                  " { %q = nn.div %a, %b : " + type + ", " + type + " -> " + type +
                  " return %q : " + type + " }");
  constexpr T kLeast = std::numeric_limits<T>::min(), kMost = std::numeric_limits<T>::max();
  const std::vector<std::pair<T, T>> pairs{{7, 2},       {-7, 2},         {7, -2}, {-7, -2},
                                           {kLeast, -1}, {kLeast, 1},     {5, 0},  {kMost, -1},
                                           {0, -3},      {kLeast, kLeast}};
  std::vector<T> a, b, expected;
  for (int64_t i = 0; i < count; ++i) {
    auto [x, y] = pairs[static_cast<size_t>(i) % pairs.size()];
    a.push_back(x), b.push_back(y);
    // Truncated; the least one by -1 wraps around to itself; by 0 gives 0.
    expected.push_back(y == 0 ? 0 : y == -1 ? static_cast<T>(0 - static_cast<uint64_t>(x)) : x / y);
  }
  EXPECT_EQ(as<T>(kernels.run({raw(a), raw(b)})[0]), expected) << element << ", " << count;
}

TEST(EdgeKernels, IntegerDivisionNeverTraps) {
  // Counts that leave lanes over: those hold zeros and must not be divided by.
  for (int64_t count : {1, 3, 10, 33}) {
    checkDivision<int64_t>("i64", count);
    checkDivision<int32_t>("i32", count);
  }
}

TEST(EdgeKernels, CastToIntegerSaturatesAndNaNIsZero) {
  const std::vector<double> edges{kNaN,  kInf,         -kInf,         0.9,   -0.9,         1e30,
                                  -1e30, 2147483648.0, -2147483648.0, 65504, 2147483520.0, -3};
  for (auto [element, dtype] :
       {std::pair("f64", diffrun::DType::kF64), std::pair("f32", diffrun::DType::kF32),
        std::pair("f16", diffrun::DType::kF16), std::pair("bf16", diffrun::DType::kBF16)})
    for (const char *to : {"i32", "i64", "i1"}) {
      std::string from = typeText({12}, element), result = typeText({12}, to);
      expectEvaluator("func.func @f(%x: " + from + ") -> " + result + " { %y = nn.cast %x {to = " +
                          to + "} : " + from + " -> " + result + " return %y : " + result + " }",
                      {tensorOf(dtype, {12}, edges)});
    }
}

TEST(EdgeKernels, CastBetweenIntegersWraps) {
  expectEvaluator("func.func @f(%x: tensor<5xi64>) -> (tensor<5xi32>, tensor<5xi1>) {"
                  " %y = nn.cast %x {to = i32} : tensor<5xi64> -> tensor<5xi32>"
                  " %z = nn.cast %x {to = i1} : tensor<5xi64> -> tensor<5xi1>"
                  " return %y, %z : tensor<5xi32>, tensor<5xi1> }",
                  {tensorOf(diffrun::DType::kI64, {5}, {0, -1, 4294967296.0, 2147483648.0, -5e9})});
}

//===--- NaN and booleans ----------------------------------------------------===//

TEST(EdgeKernels, ExtremesOfNaNAreNaN) {
  // In the first, a middle and the last place of a row; a row without; one of infinities.
  for (int64_t width : {3, 17, 64})
    for (const char *op : {"reduce_max", "reduce_min"})
      for (int axis : {0, 1}) {
        std::vector<double> values(static_cast<size_t>(5 * width));
        for (size_t i = 0; i < values.size(); ++i)
          values[i] = static_cast<double>(i * 7 % 11) - 5;
        auto w = static_cast<size_t>(width);
        values[0] = values[w + w / 2] = values[3 * w - 1] = kNaN;
        std::fill(values.begin() + 3 * width, values.begin() + 4 * width, -kInf);
        std::string from = typeText({5, width}, "f32"), to = typeText({axis ? 5 : width}, "f32");
        std::string function = std::string("func.func @f(%x: ") + from + ") -> " + to +
                               " { %y = nn." + op +
                               " %x {axes = array<i64: " + std::to_string(axis) + ">} : " + from +
                               " -> " + to + " return %y : " + to + " }";
        expectEvaluator(function, {tensorOf(diffrun::DType::kF32, {5, width}, values)});
        if (axis == 1) {
          Kernels kernels(function);
          auto got = as<float>(
              kernels.run({bytesOf(tensorOf(diffrun::DType::kF32, {5, width}, values))})[0]);
          EXPECT_TRUE(std::isnan(got[0]) && std::isnan(got[1]) && std::isnan(got[2])) << op;
          EXPECT_EQ(got[3], -kInf);
          EXPECT_FALSE(std::isnan(got[4]));
        }
      }
}

TEST(EdgeKernels, SoftmaxOfHiddenRowsAndTheLargestNumbers) {
  for (auto [element, dtype, largest] : {std::tuple("f64", diffrun::DType::kF64, 1.7e308),
                                         std::tuple("f32", diffrun::DType::kF32, 3.4e38),
                                         std::tuple("f16", diffrun::DType::kF16, 65504.0)}) {
    std::string type = typeText({4, 4}, element);
    std::string function = "func.func @f(%x: " + type + ") -> " + type +
                           " { %y = nn.softmax %x {axis = 1 : i64} : " + type + " -> " + type +
                           " return %y : " + type + " }";
    expectEvaluator(function,
                    {tensorOf(dtype, {4, 4},
                              {-kInf, -kInf, -kInf, -kInf, -kInf, -largest, -kInf, -kInf, // hidden
                               0, 0, 0, 0, -kInf, 0, -kInf, 0})});
  }
}

TEST(EdgeKernels, BooleansAreOrderedFalseBeforeTrue) {
  auto a = tensorOf(diffrun::DType::kBool, {4}, {0, 0, 1, 1}),
       b = tensorOf(diffrun::DType::kBool, {4}, {0, 1, 0, 1});
  for (const char *op : {"less", "less_equal", "greater", "greater_equal", "equal", "not_equal",
                         "maximum", "minimum", "logical_and", "logical_or"})
    expectEvaluator(std::string("func.func @f(%a: tensor<4xi1>, %b: tensor<4xi1>) -> tensor<4xi1>"
                                " { %y = nn.") +
                        op +
                        " %a, %b : tensor<4xi1>, tensor<4xi1> -> tensor<4xi1>"
                        " return %y : tensor<4xi1> }",
                    {a, b});
  for (const char *op : {"reduce_max", "reduce_min"})
    expectEvaluator(std::string("func.func @f(%x: tensor<4x5xi1>) -> tensor<4xi1> { %y = nn.") +
                        op +
                        " %x {axes = array<i64: 1>} : tensor<4x5xi1> -> tensor<4xi1>"
                        " return %y : tensor<4xi1> }",
                    {tensorOf(diffrun::DType::kBool, {4, 5},
                              {0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1})});
}

//===--- Nothing -------------------------------------------------------------===//

TEST(EdgeKernels, EmptyTensors) {
  auto none = [](std::vector<int64_t> shape) {
    return tensorOf(diffrun::DType::kF32, std::move(shape), {});
  };
  expectEvaluator("func.func @f(%a: tensor<0x3xf32>, %b: tensor<3xf32>) -> tensor<0x3xf32> {"
                  " %y = nn.add %a, %b : tensor<0x3xf32>, tensor<3xf32> -> tensor<0x3xf32>"
                  " return %y : tensor<0x3xf32> }",
                  {none({0, 3}), tensorOf(diffrun::DType::kF32, {3}, {1, 2, 3})});
  expectEvaluator("func.func @f(%a: tensor<3x0xf32>) -> tensor<3x0xf32> {"
                  " %y = nn.exp %a : tensor<3x0xf32> return %y : tensor<3x0xf32> }",
                  {none({3, 0})});
  for (const char *op : {"reduce_sum", "reduce_max", "reduce_min"})
    for (auto [from, axis, to] :
         {std::tuple("3x0", "1", "3"), std::tuple("0x3", "0", "3"), std::tuple("3x0", "0", "0")}) {
      std::string in = std::string("tensor<") + from + "xf32>",
                  out = std::string("tensor<") + to + "xf32>";
      expectEvaluator(
          "func.func @f(%x: " + in + ") -> " + out + " { %y = nn." + op +
              " %x {axes = array<i64: " + axis + ">} : " + in + " -> " + out +
              " return %y : " + out + " }",
          {none(from[0] == '0' ? std::vector<int64_t>{0, 3} : std::vector<int64_t>{3, 0})});
    }
  expectEvaluator("func.func @f(%a: tensor<2x0xf32>, %b: tensor<2x2xf32>) -> tensor<2x2xf32> {"
                  " %y = nn.concat %a, %b {axis = 1 : i64} : tensor<2x0xf32>, tensor<2x2xf32>"
                  " -> tensor<2x2xf32> return %y : tensor<2x2xf32> }",
                  {none({2, 0}), tensorOf(diffrun::DType::kF32, {2, 2}, {1, 2, 3, 4})});
  expectEvaluator("func.func @f(%a: tensor<2x0xf32>) -> tensor<2x3xf32> {"
                  " %y = nn.pad %a {low = array<i64: 0, 1>, high = array<i64: 0, 2>,"
                  " interior = array<i64: 0, 0>, value = 4.0 : f64} : tensor<2x0xf32>"
                  " -> tensor<2x3xf32> return %y : tensor<2x3xf32> }",
                  {none({2, 0})});
  expectEvaluator("func.func @f(%t: tensor<4x3xf32>, %i: tensor<0xi64>) -> tensor<0x3xf32> {"
                  " %y = nn.gather %t, %i {axis = 0 : i64} : tensor<4x3xf32>, tensor<0xi64>"
                  " -> tensor<0x3xf32> return %y : tensor<0x3xf32> }",
                  {tensorOf(diffrun::DType::kF32, {4, 3}, std::vector<double>(12, 1)),
                   tensorOf(diffrun::DType::kI64, {0}, {})});
  expectEvaluator("func.func @f(%i: tensor<0xi64>, %u: tensor<0x3xf32>) -> tensor<4x3xf32> {"
                  " %y = nn.scatter_add %i, %u {axis = 0 : i64, size = 4 : i64} : tensor<0xi64>,"
                  " tensor<0x3xf32> -> tensor<4x3xf32> return %y : tensor<4x3xf32> }",
                  {tensorOf(diffrun::DType::kI64, {0}, {}), none({0, 3})});
}

//===--- More than 32 bits ---------------------------------------------------===//

/// Address space whose pages come when they are touched: only what a kernel
/// really reads takes memory.
class Sparse {
public:
  explicit Sparse(int64_t bytes)
      : size(static_cast<size_t>(bytes)),
        base(mmap(nullptr, size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    EXPECT_NE(base, MAP_FAILED);
  }
  ~Sparse() { munmap(base, size); }
  float &operator[](int64_t element) { return static_cast<float *>(base)[element]; }
  void *data() { return base; }

private:
  size_t size;
  void *base;
};

TEST(EdgeKernels, GatherFromATableOfMoreThan2To31Elements) {
  constexpr int64_t kRows = 262144, kWidth = 8960;
  Kernels kernels(
      "func.func @f(%t: tensor<262144x8960xf32>, %i: tensor<4xi64>) -> tensor<4x8960xf32> {"
      " %y = nn.gather %t, %i {axis = 0 : i64} : tensor<262144x8960xf32>, tensor<4xi64>"
      " -> tensor<4x8960xf32> return %y : tensor<4x8960xf32> }");
  Sparse table(kRows * kWidth * 4);
  // Past 2^31 bytes, 2^31 elements, and the very last row, by its negative number too.
  std::vector<int64_t> rows{70000, 240000, kRows - 1, -1};
  for (int64_t row : {int64_t{70000}, int64_t{240000}, kRows - 1}) {
    table[row * kWidth] = static_cast<float>(row);
    table[row * kWidth + kWidth - 1] = static_cast<float>(row) + 0.25f;
  }
  std::vector<float> out(4 * kWidth, -1);
  kernels.compiled->run(kernels.only(), {table.data(), rows.data(), out.data()});
  for (int64_t r = 0; r < 4; ++r) {
    auto row = static_cast<float>(rows[static_cast<size_t>(r)] < 0 ? kRows - 1
                                                                   : rows[static_cast<size_t>(r)]);
    EXPECT_EQ(out[static_cast<size_t>(r * kWidth)], row);
    EXPECT_EQ(out[static_cast<size_t>(r * kWidth + 1)], 0);
    EXPECT_EQ(out[static_cast<size_t>(r * kWidth + kWidth - 1)], row + 0.25f);
  }
}

TEST(EdgeKernels, SlicesOfMoreThan2To32Elements) {
  // The last picture's last channel, every second column from the right: strides
  // and offsets beyond 32 bits on either side of 0.
  Kernels kernels("func.func @f(%x: tensor<64x320x512x512xf32>) -> tensor<64x1x1x256xf32> {"
                  " %s = nn.slice %x {starts = array<i64: 63, 319, 511, 511>,"
                  " sizes = array<i64: 64, 1, 1, 256>, strides = array<i64: -1, 1, 1, -2>} :"
                  " tensor<64x320x512x512xf32> -> tensor<64x1x1x256xf32>"
                  " %y = nn.neg %s : tensor<64x1x1x256xf32>"
                  " return %y : tensor<64x1x1x256xf32> }");
  constexpr int64_t kPicture = int64_t{320} * 512 * 512;
  Sparse x(64 * kPicture * 4);
  for (int64_t picture = 0; picture < 64; ++picture)
    for (int64_t column = 0; column < 512; ++column)
      x[(picture + 1) * kPicture - 512 + column] = static_cast<float>(picture * 1000 + column);
  std::vector<float> out(64 * 256, 1);
  kernels.compiled->run(kernels.only(), {x.data(), out.data()});
  for (int64_t picture = 0; picture < 64; ++picture)
    for (int64_t i = 0; i < 256; ++i)
      ASSERT_EQ(out[static_cast<size_t>(picture * 256 + i)],
                -static_cast<float>((63 - picture) * 1000 + 511 - 2 * i));
}

} // namespace
} // namespace diffc::test
