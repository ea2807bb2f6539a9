// RUN: diffc-opt %s --split-input-file --verify-diagnostics

train.model @m {
  // expected-error @+1 {{argument 0 names @w, which the model does not have}}
  train.graph @g(%w: tensor<2xf32> {train.parameter = @w}) -> tensor<2xf32> {
    train.return %w : tensor<2xf32>
  }
}

// -----

train.model @m {
  train.parameter @w : tensor<3xf32>
  // expected-error @+1 {{its parameter 'tensor<3xf32>'}}
  train.graph @g(%w: tensor<2xf32> {train.parameter = @w}) -> tensor<2xf32> {
    train.return %w : tensor<2xf32>
  }
}

// -----

train.model @m {
  // expected-error @+1 {{argument 0 names neither an input nor a parameter}}
  train.graph @g(%x: tensor<2xf32>) -> tensor<2xf32> {
    train.return %x : tensor<2xf32>
  }
}

// -----

train.model @m {
  train.graph @g(%x: tensor<2xf32> {train.input = "x"}) -> tensor<3xf32> {
    // expected-error @+1 {{returns other types than its graph's}}
    train.return %x : tensor<2xf32>
  }
}
