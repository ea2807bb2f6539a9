// The program around the steps.
#ifndef DIFFC_PLAN_OPS
#define DIFFC_PLAN_OPS

include "dialects/plan/IR/PlanDialect.td"
include "dialects/plan/IR/PlanStepOps.td"

def Plan_ProgramOp : Op<Plan_Dialect, "program", [Symbol, SymbolTable, NoTerminator,
    SingleBlock, IsolatedFromAbove]> {
  let summary = "A plan file";
  let description = [{
    Resolves every reference of what it holds and checks every buffer.
    (P1) one target; at most one code, objective, weights, recipe, decisions.
    (P2) spaces and kernels have names of their own, entries among entries, slots
    among slots. (P3) what is referred to is there. (P4) nothing of other dialects.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$version, StrAttr:$compiler);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `version` $version `compiler` $compiler attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
}

class Plan_ProgramPart<string mnemonic, list<Trait> traits = []>
    : Op<Plan_Dialect, mnemonic, !listconcat([HasParent<"ProgramOp">], traits)>;

def Plan_TargetOp : Plan_ProgramPart<"target"> {
  let summary = "The processor that the code is for";
  let description = [{
    An x86 level, the features that a processor must have, and the threads of
    the team. (T1) the team has 1 to 1024 threads.
  }];
  let arguments = (ins StrAttr:$level, StrArrayAttr:$features, I64Attr:$team);
  let assemblyFormat = "`cpu` $level `team` $team `features` $features attr-dict";
  let hasVerifier = 1;
}

def Plan_SpaceOp : Plan_ProgramPart<"space", [Symbol]> {
  let summary = "Memory that buffers are ranges of";
  let description = [{
    `data` is the CRC-32C of its initial content, which the file holds.
    (A1) no negative size. (A2) what has data lives as long as the program.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Plan_Lifetime:$lifetime, I64Attr:$bytes,
                       OptionalAttr<I64Attr>:$data);
  let assemblyFormat = "$sym_name `lives` $lifetime `bytes` custom<Bytes>($bytes, $data) attr-dict";
  let hasVerifier = 1;
}

def Plan_SlotOp : Plan_ProgramPart<"slot"> {
  let summary = "One tensor of state, at its place";
  let description = [{
    (O1) its elements are of a type that the file knows, and its buffer has the
    size of its type. (O2) its space lives as long as the program and has no data.
  }];
  let arguments = (ins Plan_SlotName:$slot, Plan_Buffer:$buffer, Plan_TensorType:$type,
                       UnitAttr:$trainable);
  let assemblyFormat = [{
    custom<SlotName>($slot) `in` custom<Buffer>($buffer) `:` $type (`trainable` $trainable^)?
    attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_CodeOp : Plan_ProgramPart<"code"> {
  let summary = "The shared object that kernels are symbols of";
  let description = "Its size and CRC-32C; the file holds the bytes.";
  let arguments = (ins I64Attr:$bytes, I64Attr:$checksum);
  let assemblyFormat = "`bytes` $bytes `crc32c` custom<Hex>($checksum) attr-dict";
}

def Plan_KernelOp : Plan_ProgramPart<"kernel", [Symbol]> {
  let summary = "A symbol of the code, and how many buffers it reads and writes";
  let description = "(K1) there is code.";
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$num_inputs, I64Attr:$num_outputs);
  let assemblyFormat = "$sym_name `:` $num_inputs `->` $num_outputs attr-dict";
}

def Plan_EntryOp : Plan_ProgramPart<"entry", [NoTerminator, SingleBlock]> {
  let summary = "One program over the shared state";
  let description = [{
    Its inputs, the slots that it reads, its steps, its outputs, the slots that
    it commits, in this order (E1). `arena` is its share of spaces that live for
    an entry. Values and nodes are numbers of its nn program, which only the
    file holds. (E2) a slot is read at most once and committed at most once.
    (E3) inputs and outputs differ in their names.
  }];
  let arguments = (ins SymbolNameAttr:$entry_name, StrAttr:$model, I64Attr:$batch,
                       I64Attr:$arena_bytes, I64Attr:$num_values, I64Attr:$num_nodes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $entry_name `of` $model `batch` $batch `arena` $arena_bytes `values` $num_values
    `nodes` $num_nodes attr-dict-with-keyword $body
  }];
}

class Plan_EntryPart<string mnemonic> : Op<Plan_Dialect, mnemonic, [HasParent<"EntryOp">]>;

def Plan_InputOp : Plan_EntryPart<"input"> {
  let summary = "What the entry gets at each call";
  let description = [{
    Data with a role, or a plan scalar with its value in the recipe.
    (I1) its buffer has the size of its type. (I2) a scalar has rank 0.
  }];
  let arguments = (ins StrAttr:$name, OptionalAttr<StrAttr>:$role,
                       OptionalAttr<F64Attr>:$scalar, I64Attr:$value, Plan_Buffer:$buffer,
                       Plan_TensorType:$type);
  let assemblyFormat = [{
    $name (`role` $role^)? (`scalar` $scalar^)? `value` $value `in` custom<Buffer>($buffer) `:`
    $type attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_OutputOp : Plan_EntryPart<"output"> {
  let summary = "What the entry returns";
  let description = "(U1) its buffer has the size of its type.";
  let arguments = (ins StrAttr:$name, I64Attr:$value, Plan_Buffer:$buffer,
                       Plan_TensorType:$type);
  let assemblyFormat = [{
    $name `value` $value `in` custom<Buffer>($buffer) `:` $type attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_ReadOp : Plan_EntryPart<"read"> {
  let summary = "The program's value that a slot holds when the entry starts";
  let arguments = (ins Plan_SlotName:$slot, I64Attr:$value);
  let assemblyFormat = "custom<SlotName>($slot) `value` $value attr-dict";
}

def Plan_CommitOp : Plan_EntryPart<"commit"> {
  let summary = "The program's value that a slot holds when the entry has ended";
  let arguments = (ins Plan_SlotName:$slot, I64Attr:$value);
  let assemblyFormat = "custom<SlotName>($slot) `value` $value attr-dict";
}

def Plan_ObjectiveOp : Plan_ProgramPart<"objective"> {
  let summary = "What the samplers must know of the objective";
  let arguments = (ins StrAttr:$kind, StrAttr:$predict, StrAttr:$schedule, I64Attr:$steps,
      F64Attr:$beta_start, F64Attr:$beta_end, I64Attr:$null_label, I64Attr:$classes,
      I64Attr:$accumulate);
  let assemblyFormat = [{
    $kind `predict` $predict `schedule` $schedule `steps` $steps `beta` $beta_start `to`
    $beta_end `null_label` $null_label `classes` $classes `accumulate` $accumulate attr-dict
  }];
}

def Plan_WeightsOp : Plan_ProgramPart<"weights"> {
  let summary = "The file beside the plan";
  let arguments = (ins StrAttr:$file, I64Attr:$bytes, I64Attr:$checksum);
  let assemblyFormat = "$file `bytes` $bytes `crc32c` custom<Hex>($checksum) attr-dict";
}

def Plan_RemarkOp : Plan_ProgramPart<"remark"> {
  let summary = "What diffc tells about an operation";
  let arguments = (ins StrAttr:$kind, StrAttr:$location, StrAttr:$text);
  let assemblyFormat = "$kind `at` $location `:` $text attr-dict";
}

class Plan_TextOp<string mnemonic, string what> : Plan_ProgramPart<mnemonic> {
  let summary = what;
  let arguments = (ins StrAttr:$text);
  let assemblyFormat = "$text attr-dict";
}
def Plan_RecipeOp : Plan_TextOp<"recipe", "The recipe as it was given">;
def Plan_DecisionsOp : Plan_TextOp<"decisions", "What diffc guessed or chose, a line each">;

#endif
