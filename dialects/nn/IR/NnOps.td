// All operators of the nn dialect, one file per family.
include "dialects/nn/IR/NnElementwiseOps.td"
include "dialects/nn/IR/NnTensorOps.td"
include "dialects/nn/IR/NnContractionOps.td"
include "dialects/nn/IR/NnNormOps.td"
include "dialects/nn/IR/NnRegionOps.td"
