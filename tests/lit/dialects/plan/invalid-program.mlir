// RUN: diffc-opt %s --split-input-file --verify-diagnostics

// What a program refuses of its parts; labels as in dialects/plan/IR.

// (P1) A target, and one.
// expected-error @+1 {{has no plan.target}}
plan.program @p version 1 compiler "t" {
}

// -----

// (P1)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  // expected-error @+1 {{is there twice}}
  plan.target cpu "avx2" team 1 features []
}

// -----

// (T1)
plan.program @p version 1 compiler "t" {
  // expected-error @+1 {{cannot have a team of 0 threads}}
  plan.target cpu "avx2" team 0 features []
}

// -----

// (P2) Names.
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  // expected-note @+1 {{see existing symbol definition here}}
  plan.space @a lives program bytes 64
  // expected-error @+1 {{redefinition of symbol named}}
  plan.space @a lives entry bytes 64
}

// -----

// (P2)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  plan.slot @m::@w weight in @state[0 : 8] : tensor<2xf32>
  // expected-error @+1 {{is there twice}}
  plan.slot @m::@w weight in @state[64 : 8] : tensor<2xf32>
}

// -----

// (P2)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.entry @e of "" batch 1 arena 0 values 0 nodes 0 {
  }
  // expected-error @+1 {{@e is there twice}}
  plan.entry @e of "" batch 1 arena 0 values 0 nodes 0 {
  }
}

// -----

// (A1)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  // expected-error @+1 {{has a negative size}}
  plan.space @a lives program bytes -1
}

// -----

// (A2)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  // expected-error @+1 {{has data, but does not live as long as the program}}
  plan.space @a lives entry bytes 64 data crc32c 0x1
}

// -----

// (O1)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  // expected-error @+1 {{a slot of type 'tensor<3xf32>' does not fill a buffer of 8 bytes}}
  plan.slot @m::@w weight in @state[0 : 8] : tensor<3xf32>
}

// -----

// (O1) Elements of a type that the file has no word for.
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  // expected-error @+1 {{a slot has elements of type 'i8', which no plan has}}
  plan.slot @m::@w weight in @state[0 : 8] : tensor<8xi8>
}

// -----

// (O1)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  // expected-error @+1 {{a slot has elements of type 'index', which no plan has}}
  plan.slot @m::@w weight in @state[0 : 8] : tensor<1xindex>
}

// -----

// (O2)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  // expected-error @+1 {{state cannot be kept in space @arena}}
  plan.slot @m::@w weight in @arena[0 : 8] : tensor<2xf32>
}

// -----

// (O2)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  // expected-error @+1 {{state cannot be kept in space @constants}}
  plan.slot @m::@w weight in @constants[0 : 8] : tensor<2xf32>
}

// -----

// A slot is a parameter of a model, or a counter.
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  plan.space @state lives program bytes 256
  plan.space @constants lives program bytes 64 data crc32c 0x1
  plan.space @arena lives entry bytes 1024
  // expected-error @+1 {{expects @model::@parameter or @counter}}
  plan.slot @a::@b::@c weight in @state[0 : 8] : tensor<2xf32>
}

// -----

// (P4)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  // expected-error @+1 {{does not belong into a plan.program}}
  builtin.module {}
}

// -----

// (K1)
plan.program @p version 1 compiler "t" {
  plan.target cpu "avx2" team 1 features []
  // expected-error @+1 {{is a symbol of code that is not there}}
  plan.kernel @k : 1 -> 1
}
