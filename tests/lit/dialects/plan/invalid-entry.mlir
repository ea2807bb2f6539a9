// RUN: diffc-opt %s --split-input-file --verify-diagnostics

// What a program refuses in entries; labels as in dialects/plan/IR.

// (S1) A space that is not there.
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{names space @nowhere, which is not there}}
    plan.output "y" value 0 in @nowhere[0 : 4] : tensor<f32>
  }
}

// -----

// (S1) Beyond the space.
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{bytes [256 : 4] are outside space @state of 256 bytes}}
    plan.output "y" value 0 in @state[256 : 4] : tensor<f32>
  }
}

// -----

// (S1) Before it.
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{bytes [-64 : 4] are outside space @state}}
    plan.output "y" value 0 in @state[-64 : 4] : tensor<f32>
  }
}

// -----

// (S1) Not aligned.
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{offset 32 in @state is no multiple of 64}}
    plan.output "y" value 0 in @state[32 : 4] : tensor<f32>
  }
}

// -----

// (S1) Beyond the entry's share of the arena.
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{bytes [512 : 4] are outside the entry's share of 512 bytes}}
    plan.output "y" value 0 in @arena[512 : 4] : tensor<f32>
  }
}

// -----

// (S2) A value that the program does not have.
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{value 4 is not one of the program's 4}}
    plan.output "y" value 4 in @arena[0 : 4] : tensor<f32>
  }
}

// -----

// (S2)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{value 9 is not one of the program's 4}}
    plan.copy "c" (9 in @arena[0 : 8]) -> (1 in @arena[64 : 8])
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (S3) Nodes that it does not have.
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{nodes [1 : 2] are not among the program's 2}}
    plan.copy "c" (0 in @arena[0 : 8]) -> (1 in @arena[64 : 8])
        nodes [1 : 2] moves [0, 0] flops 0 at ""
  }
}

// -----

// (S4) Constants stay.
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{writes to constants}}
    plan.copy "c" (0 in @arena[0 : 8]) -> (1 in @constants[0 : 8])
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (S1) Scratch is memory like any other.
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{bytes [448 : 128] are outside the entry's share}}
    plan.copy "c" (0 in @arena[0 : 8]) -> (1 in @arena[64 : 8]) scratch (@arena[448 : 128])
        nodes [0 : 1] moves [0, 0] flops 0 at ""
  }
}

// -----

// (E1) Order.
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    plan.copy "c" (0 in @arena[0 : 8]) -> (1 in @arena[64 : 8])
        nodes [0 : 1] moves [0, 0] flops 0 at ""
    // expected-error @+1 {{comes too late: inputs, reads, steps, outputs, commits in this order}}
    plan.input "x" role "x" value 0 in @arena[0 : 4] : tensor<f32>
  }
}

// -----

// (E1) Only these.
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{does not belong into a plan.entry}}
    builtin.module {}
  }
}

// -----

// (E2) Slots are there, and used once.
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{names a slot that is not there}}
    plan.read @m::@w weight value 0
  }
}

// -----

// (E2)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.slot @i value in @state[0 : 8] : tensor<i64>
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    plan.commit @i value value 0
    // expected-error @+1 {{names a slot a second time}}
    plan.commit @i value value 1
  }
}

// -----

// (E3)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    plan.input "x" role "x" value 0 in @arena[0 : 4] : tensor<f32>
    plan.input "x" scalar 1.0 value 0 in @arena[0 : 4] : tensor<f32>
    // expected-error @+1 {{"y" is there twice}}
    plan.input "y" role "x" value 0 in @arena[0 : 4] : tensor<f32>
  }
}

// -----

// (I1)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{an input of type 'tensor<2xf32>' does not fill a buffer of 4 bytes}}
    plan.input "x" role "x" value 0 in @arena[0 : 4] : tensor<2xf32>
  }
}

// -----

// (I2)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{a scalar has rank 0}}
    plan.input "x" scalar 1.0 value 0 in @arena[0 : 4] : tensor<1xf32>
  }
}

// -----

// (U1)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.entry @e of "" batch 1 arena 512 values 4 nodes 2 {
    // expected-error @+1 {{an output of type 'tensor<i1>' does not fill a buffer of 4 bytes}}
    plan.output "y" value 0 in @arena[0 : 4] : tensor<i1>
  }
}
