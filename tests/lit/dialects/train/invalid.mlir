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

// -----

func.func @wide_use(%n: tensor<i64>) -> tensor<2x3xf32> {
  // expected-error @+1 {{use 4294967303 does not fit the counter's 32 bits}}
  %d = train.draw "normal" use 4294967303 (%n, %n, %n) : tensor<i64>, tensor<i64>, tensor<i64> -> tensor<2x3xf32>
  return %d : tensor<2x3xf32>
}

// -----

func.func @negative_use(%n: tensor<i64>) -> tensor<2x3xf32> {
  // expected-error @+1 {{use -1 does not fit the counter's 32 bits}}
  %d = train.draw "uniform" use -1 (%n, %n, %n) : tensor<i64>, tensor<i64>, tensor<i64> -> tensor<2x3xf32>
  return %d : tensor<2x3xf32>
}
