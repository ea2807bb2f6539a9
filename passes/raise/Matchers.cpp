#include "passes/raise/Matchers.h"

#include "dialects/nn/IR/Builders.h"

#include <cmath>

using namespace mlir;

namespace diffc {

std::optional<double> splatOf(Value value) {
  auto constant = value.getDefiningOp<nn::ConstantOp>();
  auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  if (!dense || !dense.isSplat() || !isa<FloatType>(dense.getElementType()))
    return std::nullopt;
  APFloat element = dense.getSplatValue<APFloat>();
  bool loses = false;
  element.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
  return element.convertToDouble();
}

bool isNearly(double value, double expected, Type element) {
  int mantissa = static_cast<int>(cast<FloatType>(element).getFPMantissaWidth()) - 1;
  double tolerance = std::max(1e-6, 2 * std::ldexp(1.0, -mantissa));
  return std::fabs(value - expected) <= tolerance * std::fabs(expected);
}

/// The factor that a division or product by a splat constant stands for.
static std::optional<std::pair<Value, double>> scaledValue(Value value) {
  if (auto mul = value.getDefiningOp<nn::MulOp>()) {
    for (auto [x, c] :
         {std::pair(mul.getLhs(), mul.getRhs()), std::pair(mul.getRhs(), mul.getLhs())})
      if (auto factor = splatOf(c))
        return std::pair(x, *factor);
  }
  if (auto div = value.getDefiningOp<nn::DivOp>())
    if (auto divisor = splatOf(div.getRhs()); divisor && *divisor != 0)
      return std::pair(div.getLhs(), 1 / *divisor);
  return std::nullopt;
}

std::optional<Mean> meanOf(Value value) {
  Type element = nn::tensorType(value).getElementType();
  if (!isa<FloatType>(element))
    return std::nullopt;
  ArrayRef<int64_t> shape = nn::tensorType(value).getShape();
  double factor = 1;
  Value at = value;
  // A division and a reshape may come in either order.
  for (int i = 0; i < 2; ++i) {
    if (auto scaled = scaledValue(at)) {
      at = scaled->first;
      factor *= scaled->second;
    }
    if (auto reshape = at.getDefiningOp<nn::ReshapeOp>())
      at = reshape.getInput();
  }
  Mean mean;
  int64_t count = 1;
  if (auto reduce = at.getDefiningOp<nn::ReduceMeanOp>()) {
    mean = {reduce.getInput(), llvm::to_vector(reduce.getAxes())};
  } else if (auto reduce = at.getDefiningOp<nn::ReduceSumOp>()) {
    mean = {reduce.getInput(), llvm::to_vector(reduce.getAxes())};
    for (int64_t axis : mean.axes)
      count *= nn::tensorType(mean.input).getDimSize(axis);
  } else {
    return std::nullopt;
  }
  SmallVector<int64_t> kept(nn::tensorType(mean.input).getShape());
  for (int64_t axis : mean.axes)
    kept[axis] = 1;
  // Leading dimensions of 1 that are missing make no difference to a reader.
  SmallVector<int64_t> padded(kept.size() - std::min(kept.size(), shape.size()), 1);
  llvm::append_range(padded, shape);
  if (mean.axes.empty() || padded != kept ||
      !isNearly(factor * static_cast<double>(count), 1, element))
    return std::nullopt;
  return mean;
}

Value rootOfSquare(Value value) {
  if (auto mul = value.getDefiningOp<nn::MulOp>())
    return mul.getLhs() == mul.getRhs() ? mul.getLhs() : Value();
  auto pow = value.getDefiningOp<nn::PowOp>();
  if (!pow || pow.getLhs().getType() != pow.getType() || splatOf(pow.getRhs()) != 2.0)
    return {};
  return pow.getLhs();
}

//===----------------------------------------------------------------------===//
// Polynomials
//===----------------------------------------------------------------------===//

static std::optional<Polynomial> product(const std::optional<Polynomial> &a,
                                         const std::optional<Polynomial> &b) {
  constexpr int kHighest = 8; // powers beyond any activation's
  if (!a || !b)
    return std::nullopt;
  Polynomial result;
  for (const auto &[p, x] : *a)
    for (const auto &[q, y] : *b) {
      std::pair<int, int> powers(p.first + q.first, p.second + q.second);
      if (powers.first + powers.second > kHighest)
        return std::nullopt;
      result[powers] += x * y;
    }
  return result;
}

static std::optional<Polynomial> sum(std::optional<Polynomial> a,
                                     const std::optional<Polynomial> &b, double sign) {
  if (!a || !b)
    return std::nullopt;
  for (const auto &[p, y] : *b)
    (*a)[p] += sign * y;
  return a;
}

std::optional<Polynomial> polynomialIn(Value value, Value x, Value t, int depth) {
  if (value == x)
    return Polynomial{{{1, 0}, 1.0}};
  if (value == t)
    return Polynomial{{{0, 1}, 1.0}};
  if (auto constant = splatOf(value))
    return Polynomial{{{0, 0}, *constant}};
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0)
    return std::nullopt;
  auto of = [&](Value operand) { return polynomialIn(operand, x, t, depth - 1); };
  auto result =
      TypeSwitch<Operation *, std::optional<Polynomial>>(op)
          .Case([&](nn::MulOp mul) { return product(of(mul.getLhs()), of(mul.getRhs())); })
          .Case([&](nn::AddOp add) { return sum(of(add.getLhs()), of(add.getRhs()), 1); })
          .Case([&](nn::SubOp sub) { return sum(of(sub.getLhs()), of(sub.getRhs()), -1); })
          .Case([&](nn::NegOp neg) { return sum(Polynomial(), of(neg.getInput()), -1); })
          .Case([&](nn::DivOp div) -> std::optional<Polynomial> {
            auto divisor = splatOf(div.getRhs());
            if (!divisor || *divisor == 0)
              return std::nullopt;
            return product(of(div.getLhs()), Polynomial{{{0, 0}, 1 / *divisor}});
          })
          .Case([&](nn::PowOp pow) -> std::optional<Polynomial> {
            auto exponent = splatOf(pow.getRhs());
            if (!exponent || (*exponent != 2 && *exponent != 3))
              return std::nullopt;
            auto base = of(pow.getLhs()), square = product(base, base);
            return *exponent == 2 ? square : product(square, base);
          })
          .Default([](Operation *) { return std::nullopt; });
  if (result)
    for (auto it = result->begin(); it != result->end();)
      it = it->second == 0 ? result->erase(it) : std::next(it);
  return result;
}

bool isNearly(const Polynomial &polynomial, const Polynomial &expected, Type element) {
  return polynomial.size() == expected.size() &&
         llvm::all_of(llvm::zip(polynomial, expected), [&](auto pair) {
           auto &[got, wanted] = pair;
           return got.first == wanted.first && isNearly(got.second, wanted.second, element);
         });
}

} // namespace diffc
