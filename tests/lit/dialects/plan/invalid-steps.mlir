// RUN: diffc-opt %s --split-input-file --verify-diagnostics

// What steps refuse; labels as in dialects/plan/IR.

// (L1)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{names kernel @none, which is not there}}
    plan.launch @none chunks 1 "l" (0 in @arena[0 : 8]) -> (1 in @arena[64 : 8])
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (L2)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.code bytes 8 crc32c 0x1
  plan.kernel @k : 1 -> 1
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{has 2 inputs and 1 outputs, kernel @k 1 and 1}}
    plan.launch @k chunks 1 "l" (0 in @arena[0 : 8], 0 in @arena[0 : 8]) -> (1 in @arena[64 : 8])
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (L3)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.code bytes 8 crc32c 0x1
  plan.kernel @k : 1 -> 1
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{needs at least one chunk}}
    plan.launch @k chunks 0 "l" (0 in @arena[0 : 8]) -> (1 in @arena[64 : 8])
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (M1) A bias is a third input.
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{needs 3 inputs and one output}}
    plan.matmul "m" (0 in @arena[0 : 64], 1 in @arena[64 : 64]) -> (2 in @arena[128 : 64]) a memref<4x4xf32> b memref<4x4xf32> c memref<4x4xf32> bias
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (M2)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{needs one float type for a, b and c}}
    plan.matmul "m" (0 in @arena[0 : 64], 1 in @arena[64 : 64]) -> (2 in @arena[128 : 64]) a memref<4x4xf32> b memref<4x4xbf16> c memref<4x4xf32>
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (M2)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{needs one float type for a, b and c}}
    plan.matmul "m" (0 in @arena[0 : 64], 1 in @arena[64 : 64]) -> (2 in @arena[128 : 64]) a memref<4x4xi32> b memref<4x4xi32> c memref<4x4xi32>
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (M3)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{shapes do not multiply}}
    plan.matmul "m" (0 in @arena[0 : 64], 1 in @arena[64 : 64]) -> (2 in @arena[128 : 64]) a memref<4x4xf32> b memref<2x4xf32> c memref<4x4xf32>
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (M3)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{batch extents do not go together}}
    plan.matmul "m" (0 in @arena[0 : 64], 1 in @arena[64 : 64]) -> (2 in @arena[128 : 64]) a memref<2x2x2xf32> b memref<3x2x2xf32> c memref<3x2x2xf32>
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (M4) A stride leads out of the buffer.
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{a or b reaches beyond its buffer}}
    plan.matmul "m" (0 in @arena[0 : 64], 1 in @arena[64 : 64]) -> (2 in @arena[128 : 64]) a memref<4x4xf32, strided<[5, 1]>> b memref<4x4xf32> c memref<4x4xf32>
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (M4)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{a or b reaches beyond its buffer}}
    plan.matmul "m" (0 in @arena[0 : 64], 1 in @arena[64 : 64]) -> (2 in @arena[128 : 64]) a memref<4x4xf32> b memref<4x4xf32, strided<[-4, 1]>> c memref<4x4xf32>
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (M4)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{c must be dense}}
    plan.matmul "m" (0 in @arena[0 : 64], 1 in @arena[64 : 64]) -> (2 in @arena[128 : 64]) a memref<4x4xf32> b memref<4x4xf32> c memref<4x4xf32, strided<[1, 4]>>
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (M4)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{c of type 'memref<4x4xf32>' does not fill a buffer of 60 bytes}}
    plan.matmul "m" (0 in @arena[0 : 64], 1 in @arena[64 : 64]) -> (2 in @arena[128 : 60]) a memref<4x4xf32> b memref<4x4xf32> c memref<4x4xf32>
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (M4)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{the bias does not fill its buffer}}
    plan.matmul "m" (0 in @arena[0 : 64], 1 in @arena[64 : 64], 3 in @arena[192 : 4]) -> (2 in @arena[128 : 64]) a memref<4x4xf32> b memref<4x4xf32> c memref<4x4xf32> bias
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (V1)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{needs 3 inputs and one output}}
    plan.convolution forward "c" (0 in @arena[0 : 64], 1 in @arena[64 : 36]) -> (2 in @arena[128 : 64]) x tensor<1x1x4x4xf32> w tensor<1x1x3x3xf32> y tensor<1x1x4x4xf32> strides [1, 1] pads [1, 1], [1, 1] dilations [1, 1] groups 1 bias
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (V1)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{only a forward convolution has a bias}}
    plan.convolution input_grad "c" (0 in @arena[0 : 64], 1 in @arena[64 : 36], 3 in @arena[192 : 4]) -> (2 in @arena[128 : 64]) x tensor<1x1x4x4xf32> w tensor<1x1x3x3xf32> y tensor<1x1x4x4xf32> strides [1, 1] pads [1, 1], [1, 1] dilations [1, 1] groups 1 bias
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (V2)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{needs one float type for x, w and y}}
    plan.convolution forward "c" (0 in @arena[0 : 64], 1 in @arena[64 : 36]) -> (2 in @arena[128 : 64]) x tensor<1x1x4x4xf32> w tensor<1x1x3x3xf64> y tensor<1x1x4x4xf32> strides [1, 1] pads [1, 1], [1, 1] dilations [1, 1] groups 1
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (V2)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{ranks do not go together}}
    plan.convolution forward "c" (0 in @arena[0 : 64], 1 in @arena[64 : 36]) -> (2 in @arena[128 : 64]) x tensor<1x1x4x4xf32> w tensor<1x1x3x3xf32> y tensor<1x1x4x4xf32> strides [1] pads [1, 1], [1, 1] dilations [1, 1] groups 1
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (V3)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{channels do not go together}}
    plan.convolution forward "c" (0 in @arena[0 : 64], 1 in @arena[64 : 36]) -> (2 in @arena[128 : 64]) x tensor<1x1x4x4xf32> w tensor<1x1x3x3xf32> y tensor<1x1x4x4xf32> strides [1, 1] pads [1, 1], [1, 1] dilations [1, 1] groups 2
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (V4)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{extents of spatial dimension 1 do not go together}}
    plan.convolution forward "c" (0 in @arena[0 : 64], 1 in @arena[64 : 36]) -> (2 in @arena[128 : 64]) x tensor<1x1x4x4xf32> w tensor<1x1x3x3xf32> y tensor<1x1x4x4xf32> strides [1, 2] pads [1, 1], [1, 1] dilations [1, 1] groups 1
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (V5)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{input 1 of type 'tensor<1x1x3x3xf32>' does not fill a buffer of 64 bytes}}
    plan.convolution forward "c" (0 in @arena[0 : 64], 1 in @arena[64 : 64]) -> (2 in @arena[128 : 64]) x tensor<1x1x4x4xf32> w tensor<1x1x3x3xf32> y tensor<1x1x4x4xf32> strides [1, 1] pads [1, 1], [1, 1] dilations [1, 1] groups 1
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (V5) The gradient of the weights has their size.
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{output of type 'tensor<1x1x3x3xf32>' does not fill a buffer of 64 bytes}}
    plan.convolution weight_grad "c" (0 in @arena[0 : 64], 1 in @arena[64 : 64]) -> (2 in @arena[128 : 64]) x tensor<1x1x4x4xf32> w tensor<1x1x3x3xf32> y tensor<1x1x4x4xf32> strides [1, 1] pads [1, 1], [1, 1] dilations [1, 1] groups 1
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (D1)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{seed, iteration and first sample are i64}}
    plan.draw normal stream 1 samples 2 of 2 "d" (0 in @arena[0 : 8], 1 in @arena[0 : 4], 0 in @arena[0 : 8]) -> (2 in @arena[64 : 16])
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (D1)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{needs 3 inputs and one output}}
    plan.draw normal stream 1 samples 2 of 2 "d" (0 in @arena[0 : 8]) -> (2 in @arena[64 : 16])
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (D2)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{does not fill its buffer}}
    plan.draw normal stream 1 samples 2 of 2 "d" (0 in @arena[0 : 8], 1 in @arena[0 : 8], 0 in @arena[0 : 8]) -> (2 in @arena[64 : 20])
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (D3)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{stream 4294967296 does not fit 32 bits}}
    plan.draw normal stream 4294967296 samples 2 of 2 "d" (0 in @arena[0 : 8], 1 in @arena[0 : 8], 0 in @arena[0 : 8]) -> (2 in @arena[64 : 16])
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (C1)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{copies between buffers of different sizes}}
    plan.copy "c" (0 in @arena[0 : 8]) -> (1 in @arena[64 : 12])
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (C1)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{needs 1 inputs and one output}}
    plan.copy "c" () -> (1 in @arena[64 : 12])
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}
