// Import of Einsum: operands joined one after another, by matrix products where
// they share a summed index.
#include "compiler/import/Terms.h"

using namespace mlir;
using namespace diffc::nn;
using diffrun::Result;
using diffrun::Status;

namespace diffc {
namespace {

using Outcome = NodeImport::Outcome;

/// An index: its letter, or where an ellipsis stands for it, kEllipsis plus its
/// place counted from the ellipsis' end.
using Label = int;
using Labels = SmallVector<Label>;
constexpr Label kEllipsis = 256;

/// A value with an index for each of its dimensions, no index twice.
struct Term {
  Value value;
  Labels labels;

  ArrayRef<int64_t> shape() const { return tensorType(value).getShape(); }
  /// 1 for an index that it does not have.
  int64_t extent(Label label) const {
    const auto *at = llvm::find(labels, label);
    return at == labels.end() ? 1 : shape()[at - labels.begin()];
  }
};

bool has(ArrayRef<Label> labels, Label label) { return llvm::is_contained(labels, label); }

class Einsum {
public:
  explicit Einsum(NodeImport &in) : in(in), t(in, 0) {}

  Outcome run() {
    DIFFRUN_RETURN_IF_ERROR(parse());
    Term sum = terms.front();
    for (size_t i = 1; i < terms.size(); ++i) {
      Labels later = output;
      for (size_t j = i + 1; j < terms.size(); ++j)
        llvm::append_range(later, terms[j].labels);
      sum =
          join(sumOut(sum, {terms[i].labels, later}), sumOut(terms[i], {sum.labels, later}), later);
    }
    sum = arranged(sumOut(sum, {output}), output);
    return NodeImport::Values{sum.value};
  }

private:
  //===--- The equation --------------------------------------------------------===//

  Status parse() {
    std::string equation;
    for (char c : in.text("equation", ""))
      if (c != ' ')
        equation += c;
    StringRef text(equation);
    auto [left, right] = text.split("->");
    bool isExplicit = text.contains("->");
    SmallVector<StringRef> parts;
    left.split(parts, ',');
    if (parts.size() != in.operands.size())
      return in.fail("the equation \"" + equation + "\" has " + std::to_string(parts.size()) +
                     " terms for " + std::to_string(in.operands.size()) + " operands");
    for (size_t i = 0; i < parts.size(); ++i) {
      if (in.type(i).getElementType() != t.element)
        return in.fail("the operands differ in element type");
      DIFFRUN_ASSIGN(Labels labels, labelsOf(parts[i], in.type(i).getRank()));
      DIFFRUN_ASSIGN(Term term, diagonal({in.operand(i), labels}));
      terms.push_back(term);
    }
    for (const Term &term : terms)
      for (auto [label, extent] : llvm::zip(term.labels, term.shape())) {
        int64_t &known = extents.try_emplace(label, 1).first->second;
        if (extent != 1 && known != 1 && extent != known)
          return in.fail("an index of the equation is " + std::to_string(known) + " and " +
                         std::to_string(extent));
        if (extent != 1)
          known = extent;
      }
    if (!isExplicit) {
      implicitOutput();
      return {};
    }
    DIFFRUN_ASSIGN(output, labelsOf(right, std::nullopt));
    for (size_t i = 0; i < output.size(); ++i)
      if (!extents.count(output[i]) || has(ArrayRef<Label>(output).take_front(i), output[i]))
        return in.fail("the equation's result \"" + right.str() +
                       "\" has an index that no operand has, or one twice");
    return {};
  }

  /// Without "->": what an ellipsis stands for, then what occurs once, by letter.
  void implicitOutput() {
    for (auto [label, extent] : extents)
      if (label >= kEllipsis)
        output.insert(output.begin(), label);
    for (auto [label, extent] : extents)
      if (label < kEllipsis && occurrences[label] == 1)
        output.push_back(label);
  }

  /// The indices of one term. Of the result (no rank) an ellipsis stands for all
  /// that it stood for in the operands.
  Result<Labels> labelsOf(StringRef term, std::optional<int64_t> rank) {
    Labels labels;
    size_t dots = term.find("...");
    auto letters = [&](StringRef part) -> Status {
      for (char c : part) {
        if (!isalpha(static_cast<unsigned char>(c)))
          return in.fail("the equation has \"" + std::string(1, c) + "\" for an index");
        labels.push_back(c);
        occurrences[c] += rank ? 1 : 0;
      }
      return {};
    };
    if (dots == StringRef::npos) {
      DIFFRUN_RETURN_IF_ERROR(letters(term));
    } else {
      StringRef before = term.take_front(dots), after = term.drop_front(dots + 3);
      int64_t hidden = 0;
      if (rank)
        hidden = *rank - static_cast<int64_t>(before.size() + after.size());
      else
        for (auto [label, extent] : extents)
          hidden = std::max<int64_t>(hidden, label - kEllipsis + 1);
      DIFFRUN_RETURN_IF_ERROR(letters(before));
      for (int64_t i = hidden - 1; i >= 0; --i)
        labels.push_back(kEllipsis + static_cast<Label>(i));
      DIFFRUN_RETURN_IF_ERROR(letters(after));
    }
    if (rank && static_cast<int64_t>(labels.size()) != *rank)
      return in.fail("the term \"" + term.str() + "\" does not fit an operand of rank " +
                     std::to_string(*rank));
    return labels;
  }

  /// The diagonal over every index that a term has twice: elements n + 1 apart.
  Result<Term> diagonal(Term term) {
    for (size_t j = 1; j < term.labels.size(); ++j) {
      const auto *first = std::find(term.labels.begin(), term.labels.begin() + j, term.labels[j]);
      if (first == term.labels.begin() + j)
        continue;
      size_t i = first - term.labels.begin();
      int64_t n = term.shape()[j];
      if (term.shape()[i] != n)
        return in.fail("an index stands for dimensions of " + std::to_string(term.shape()[i]) +
                       " and " + std::to_string(n));
      // Both at the end, as one of n * n.
      Labels rest;
      SmallVector<int64_t> order, shape;
      for (size_t d = 0; d < term.labels.size(); ++d)
        if (d != i && d != j) {
          order.push_back(d);
          rest.push_back(term.labels[d]);
          shape.push_back(term.shape()[d]);
        }
      order.append({static_cast<int64_t>(i), static_cast<int64_t>(j)});
      shape.push_back(n * n);
      rest.push_back(term.labels[j]);
      Value x = nn::reshape(in.builder, nn::transpose(in.builder, term.value, order), shape);
      SmallVector<int64_t> starts(shape.size(), 0), strides(shape.size(), 1);
      shape.back() = n;
      strides.back() = n + 1;
      return diagonal({t.make<SliceOp>(x, starts, shape, strides), rest});
    }
    return term;
  }

  //===--- Joining -------------------------------------------------------------===//

  Term sumOut(const Term &term, ArrayRef<ArrayRef<Label>> needed) {
    SmallVector<int64_t> axes;
    Term kept{term.value, {}};
    for (auto [i, label] : llvm::enumerate(term.labels)) {
      if (llvm::any_of(needed, [&](ArrayRef<Label> labels) { return has(labels, label); }))
        kept.labels.push_back(label);
      else
        axes.push_back(static_cast<int64_t>(i));
    }
    if (!axes.empty())
      kept.value = t.make<ReduceSumOp>(term.value, axes, false);
    return kept;
  }

  /// The term with exactly these dimensions, in this order; 1 for one that it
  /// does not have.
  Term arranged(const Term &term, ArrayRef<Label> labels) {
    SmallVector<int64_t> order, shape;
    for (Label label : labels) {
      const auto *at = llvm::find(term.labels, label);
      if (at != term.labels.end())
        order.push_back(at - term.labels.begin());
      shape.push_back(term.extent(label));
    }
    Value moved = nn::transpose(in.builder, term.value, order);
    return {nn::reshape(in.builder, moved, shape), Labels(labels)};
  }

  Term expanded(const Term &term) {
    SmallVector<int64_t> shape;
    for (Label label : term.labels)
      shape.push_back(extents.at(label));
    return {broadcastTo(in.builder, term.value, shape), term.labels};
  }

  int64_t count(ArrayRef<Label> labels) const {
    int64_t product = 1;
    for (Label label : labels)
      product *= extents.at(label);
    return product;
  }

  /// The product of two terms, summed over what neither the result nor a later
  /// operand has.
  Term join(const Term &a, const Term &b, ArrayRef<Label> later) {
    Labels batch, summed, left, right;
    for (Label label : a.labels) {
      if (!has(b.labels, label))
        left.push_back(label);
      else
        (has(later, label) ? batch : summed).push_back(label);
    }
    for (Label label : b.labels)
      if (!has(a.labels, label))
        right.push_back(label);
    auto joined = [](std::initializer_list<Labels> parts) {
      Labels all;
      for (const Labels &part : parts)
        llvm::append_range(all, part);
      return all;
    };
    // The libraries' matrix products are of floats up to 32 bits.
    if (summed.empty() || !t.isReal() || t.element.isF64()) {
      Labels all = joined({batch, left, right, summed});
      Value product = t.mul(arranged(a, all).value, arranged(b, all).value);
      Term term{product, all};
      // A summed index of 1 on both sides stays 1; one of them may repeat.
      return sumOut(expandedOver(term, summed), {later});
    }
    // [batch, left, summed] x [batch, summed, right], each group as one dimension.
    Term x = expanded(arranged(a, joined({batch, left, summed})));
    Term y = expanded(arranged(b, joined({batch, summed, right})));
    SmallVector<int64_t> xShape{count(left), count(summed)}, yShape{count(summed), count(right)};
    if (!batch.empty()) {
      xShape.insert(xShape.begin(), count(batch));
      yShape.insert(yShape.begin(), count(batch));
    }
    Value product = t.make<MatmulOp>(nn::reshape(in.builder, x.value, xShape),
                                     nn::reshape(in.builder, y.value, yShape), false, false);
    Labels all = joined({batch, left, right});
    SmallVector<int64_t> shape;
    for (Label label : all)
      shape.push_back(extents.at(label));
    return {nn::reshape(in.builder, product, shape), all};
  }

  /// The term with its dimensions of `labels` at their full extents, before a sum.
  Term expandedOver(const Term &term, ArrayRef<Label> labels) {
    SmallVector<int64_t> shape;
    for (Label label : term.labels)
      shape.push_back(has(labels, label) ? extents.at(label) : term.extent(label));
    return {broadcastTo(in.builder, term.value, shape), term.labels};
  }

  NodeImport &in;
  Terms t;
  SmallVector<Term> terms;
  Labels output;
  std::map<Label, int64_t> extents;
  std::map<Label, int> occurrences;
};

Outcome einsum(NodeImport &in) { return Einsum(in).run(); }

} // namespace

void addEinsumHandlers(HandlerTable &t) { t["Einsum"] = {einsum, 12, HandlerEntry::kAll}; }

} // namespace diffc
