#ifndef DIFFC_PASSES_RAISE
#define DIFFC_PASSES_RAISE

include "mlir/Pass/PassBase.td"

def RaiseSilu : Pass<"nn-raise-silu"> {
  let summary = "Name x * sigmoid(x) what it is: nn.silu";
  let description = [{
    Before: %s = nn.sigmoid %x ; %y = nn.mul %x, %s   (either order)
    After:  %y = nn.silu %x

    One value is kept for the backward pass instead of two, and one kernel
    computes it. Skips a sigmoid of another value, and a product that
    broadcasts; leaves a sigmoid that others read in place.
    Run before autodiff: a raised derivative is cheaper than a composed one.
  }];
  let dependentDialects = ["::diffc::nn::NnDialect"];
  let statistics = [Statistic<"numRaised", "num-raised", "SiLU found">];
}

#endif
