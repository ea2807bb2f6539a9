// Operators that compute each element on its own.
#ifndef DIFFC_NN_ELEMENTWISE_OPS
#define DIFFC_NN_ELEMENTWISE_OPS

include "dialects/nn/IR/NnDialect.td"

class Nn_UnaryOp<string mnemonic, Constraint tensor, list<Trait> traits = []>
    : Nn_Op<mnemonic, !listconcat([Nn_Pointwise, Nn_CostOpInterface,
          SameOperandsAndResultType, Elementwise], traits)> {
  let arguments = (ins tensor:$input);
  let results = (outs tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}
class Nn_DiffUnaryOp<string mnemonic, list<Trait> traits = []>
    : Nn_UnaryOp<mnemonic, Nn_FloatTensor, !listconcat([Nn_Differentiable], traits)>;

def Nn_NegOp : Nn_UnaryOp<"neg", Nn_Tensor, [Nn_Differentiable]> { let summary = "-x"; }
def Nn_AbsOp : Nn_UnaryOp<"abs", Nn_Tensor, [Nn_Differentiable]> {
  let summary = "|x|; the derivative at 0 is 0";
}
def Nn_SignOp : Nn_UnaryOp<"sign", Nn_Tensor, [Nn_Differentiable]> {
  let summary = "-1, 0 or 1 (NaN of NaN); the derivative is 0";
}
def Nn_FloorOp : Nn_DiffUnaryOp<"floor"> { let summary = "Largest integer <= x"; }
def Nn_CeilOp : Nn_DiffUnaryOp<"ceil"> { let summary = "Smallest integer >= x"; }
def Nn_RoundOp : Nn_DiffUnaryOp<"round"> { let summary = "Nearest integer, ties to even"; }
def Nn_ExpOp : Nn_DiffUnaryOp<"exp"> { let summary = "e^x"; }
def Nn_Expm1Op : Nn_DiffUnaryOp<"expm1"> { let summary = "e^x - 1, exact near 0"; }
def Nn_LogOp : Nn_DiffUnaryOp<"log"> { let summary = "Natural logarithm"; }
def Nn_Log1pOp : Nn_DiffUnaryOp<"log1p"> { let summary = "log(1 + x), exact near 0"; }
def Nn_SqrtOp : Nn_DiffUnaryOp<"sqrt"> { let summary = "Square root"; }
def Nn_RsqrtOp : Nn_DiffUnaryOp<"rsqrt"> { let summary = "1 / sqrt(x)"; }
def Nn_ReciprocalOp : Nn_DiffUnaryOp<"reciprocal"> { let summary = "1 / x"; }
def Nn_SinOp : Nn_DiffUnaryOp<"sin"> { let summary = "Sine of radians"; }
def Nn_CosOp : Nn_DiffUnaryOp<"cos"> { let summary = "Cosine of radians"; }
def Nn_AtanOp : Nn_DiffUnaryOp<"atan"> {
  let summary = "Arc tangent, between -pi/2 and pi/2";
}
def Nn_TanhOp : Nn_DiffUnaryOp<"tanh"> { let summary = "Hyperbolic tangent"; }
def Nn_ErfOp : Nn_DiffUnaryOp<"erf"> { let summary = "Error function"; }
def Nn_SigmoidOp : Nn_DiffUnaryOp<"sigmoid"> { let summary = "1 / (1 + e^-x)"; }
def Nn_ReluOp : Nn_DiffUnaryOp<"relu"> {
  let summary = "max(x, 0); the derivative at 0 is 0";
}
def Nn_SiluOp : Nn_DiffUnaryOp<"silu"> { let summary = "x * sigmoid(x)"; }
def Nn_SoftplusOp : Nn_DiffUnaryOp<"softplus"> {
  let summary = "log(1 + e^x), without overflow";
}
def Nn_LogicalNotOp : Nn_UnaryOp<"logical_not", Nn_BoolTensor> { let summary = "not x"; }

def Nn_GeluOp : Nn_DiffUnaryOp<"gelu"> {
  let summary = "Gaussian error linear unit";
  let description = [{
    erf:  x/2 * (1 + erf(x / sqrt 2));
    tanh: x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))).
    Source: Hendrycks & Gimpel 2016, arXiv:1606.08415.
  }];
  let arguments = (ins Nn_FloatTensor:$input, Nn_GeluForm:$form);
}

class Nn_ActivationGradOp<string mnemonic>
    : Nn_Op<mnemonic, [Nn_Pointwise, Nn_CostOpInterface, SameOperandsAndResultType,
          Elementwise]> {
  let arguments = (ins Nn_FloatTensor:$input, Nn_FloatTensor:$output_grad);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = "$input `,` $output_grad attr-dict `:` type($input)";
}
def Nn_SiluGradOp : Nn_ActivationGradOp<"silu_grad"> {
  let summary = "dy * s * (1 + x * (1 - s)), s = sigmoid(x)";
}
def Nn_GeluGradOp : Nn_ActivationGradOp<"gelu_grad"> {
  let summary = "dy times the derivative of gelu at x";
  let arguments = (ins Nn_FloatTensor:$input, Nn_FloatTensor:$output_grad,
                       Nn_GeluForm:$form);
}

def Nn_CastOp : Nn_Op<"cast", [Nn_Pointwise, Nn_Differentiable, Nn_CostOpInterface,
                               Elementwise, SameOperandsAndResultShape]> {
  let summary = "Convert the element type";
  let description = [{
    To a narrower float: round to nearest even. Float to integer: truncate,
    saturating; NaN becomes 0. To i1: x != 0, also for NaN.
  }];
  let arguments = (ins Nn_Tensor:$input, TypeAttr:$to);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
}

// Binary operators broadcast as in ONNX: shapes are aligned at the end, a
// dimension of 1 is repeated.
class Nn_BinaryOp<string mnemonic, Constraint tensor, list<Trait> traits = []>
    : Nn_Op<mnemonic, !listconcat([Nn_Pointwise, Nn_CostOpInterface], traits)> {
  let arguments = (ins tensor:$lhs, tensor:$rhs);
  let results = (outs tensor:$result);
  let assemblyFormat =
      "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
}
class Nn_ArithmeticOp<string mnemonic, list<Trait> traits = []>
    : Nn_BinaryOp<mnemonic, Nn_Tensor, !listconcat([Nn_Differentiable], traits)>;

def Nn_AddOp : Nn_ArithmeticOp<"add"> { let summary = "a + b"; let hasFolder = 1; }
def Nn_SubOp : Nn_ArithmeticOp<"sub"> { let summary = "a - b"; let hasFolder = 1; }
def Nn_MulOp : Nn_ArithmeticOp<"mul"> { let summary = "a * b"; let hasFolder = 1; }
def Nn_DivOp : Nn_ArithmeticOp<"div"> {
  let summary = "a / b; integers truncate toward zero";
  let description = [{
    An integer by 0 is an error in the evaluator and 0 in a kernel; the least
    one by -1 wraps around to itself.
  }];
  let hasFolder = 1;
}
def Nn_RemainderOp : Nn_ArithmeticOp<"remainder"> {
  let summary = "a - b * trunc(a / b), exactly; it has a's sign";
  let description = [{
    Gradient: da = dy, db = -trunc(a / b) * dy. Of integers by 0: as nn.div.
  }];
}
def Nn_PowOp : Nn_ArithmeticOp<"pow"> {
  let summary = "a to the power b";
  let description = [{
    Gradient: da = b * a^(b-1) * dy, db = a^b * ln(a) * dy, the latter 0 where
    a <= 0.
  }];
  let arguments = (ins Nn_FloatTensor:$lhs, Nn_FloatTensor:$rhs);
  let results = (outs Nn_FloatTensor:$result);
  let hasCanonicalizer = 1; // a small constant exponent becomes products and roots
}
def Nn_MaximumOp : Nn_ArithmeticOp<"maximum"> {
  let summary = "The larger one, NaN where either is; a tie's gradient goes to a";
}
def Nn_MinimumOp : Nn_ArithmeticOp<"minimum"> {
  let summary = "The smaller one, NaN where either is; a tie's gradient goes to a";
}

class Nn_CompareOp<string mnemonic> : Nn_BinaryOp<mnemonic, Nn_Tensor> {
  let results = (outs Nn_BoolTensor:$result);
}
def Nn_LessOp : Nn_CompareOp<"less"> { let summary = "a < b"; }
def Nn_LessEqualOp : Nn_CompareOp<"less_equal"> { let summary = "a <= b"; }
def Nn_GreaterOp : Nn_CompareOp<"greater"> { let summary = "a > b"; }
def Nn_GreaterEqualOp : Nn_CompareOp<"greater_equal"> { let summary = "a >= b"; }
def Nn_EqualOp : Nn_CompareOp<"equal"> { let summary = "a == b"; }
def Nn_NotEqualOp : Nn_CompareOp<"not_equal"> { let summary = "a != b"; }
def Nn_LogicalAndOp : Nn_BinaryOp<"logical_and", Nn_BoolTensor> { let summary = "a and b"; }
def Nn_LogicalOrOp : Nn_BinaryOp<"logical_or", Nn_BoolTensor> { let summary = "a or b"; }

def Nn_BitwiseAndOp : Nn_BinaryOp<"bitwise_and", Nn_IntTensor> {
  let summary = "The bits that both have";
  let results = (outs Nn_IntTensor:$result);
}

def Nn_SelectOp : Nn_Op<"select", [Nn_Pointwise, Nn_Differentiable, Nn_CostOpInterface]> {
  let summary = "condition ? a : b, all three broadcast";
  let arguments = (ins Nn_BoolTensor:$condition, Nn_Tensor:$on_true, Nn_Tensor:$on_false);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{
    $condition `,` $on_true `,` $on_false attr-dict `:` type($condition) `,`
    type($on_true) `,` type($on_false) `->` type($result)
  }];
}

#endif
