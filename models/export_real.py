"""Writes the real configurations of models that people train, as graph-only ONNX files.

    .venv-oracle/bin/python models/export_real.py [NAME...] [--out DIR]
        (default: all, beside this script)

sd15_unet   Stable Diffusion 1.5 at 512x512: latents 4x64x64, text 77x768
sdxl_unet   SDXL at 1024x1024: latents 4x128x128, text 77x2048, pooled text and sizes
dit_xl2     DiT-XL/2 for latents of 256x256 pictures: 4x32x32, 1000 classes
pixart_xl2  PixArt-alpha XL/2 at 512x512: latents 4x64x64, text 120x4096 and its mask
sd3_medium  Stable Diffusion 3 medium at 1024x1024: latents 16x128x128, text 333x4096

The files hold the graph and how the weights are drawn, not the weights: nothing is
downloaded, and no memory is needed for them. The batch is symbolic, PixArt's is 1.
"""
import argparse
import math
import warnings
from pathlib import Path

import onnx
import onnx_ir
import torch

import zoo
from dit import DiT
from graph_only import without_values
from onnx_names import strip
from weightless import weightless

OPSET = 23
TIMES = torch.tensor([120.0, 801.0])


def sd15_unet():
    from diffusers import UNet2DConditionModel

    def forward(call, sample, timestep, encoder_hidden_states):
        return call(sample, timestep, encoder_hidden_states, return_dict=False)[0]
    return zoo.tensors_only(UNet2DConditionModel, forward)(
        sample_size=64, cross_attention_dim=768, attention_head_dim=8)


def sdxl_unet():
    return zoo.sdxl(
        sample_size=128, block_out_channels=(320, 640, 1280),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        transformer_layers_per_block=(1, 2, 10), attention_head_dim=(5, 10, 20),
        cross_attention_dim=2048, use_linear_projection=True, addition_embed_type="text_time",
        addition_time_embed_dim=256, projection_class_embeddings_input_dim=2816)


class SmallTables(torch.nn.Module):
    """A patch embedding (diffusers' PatchEmbed) for one size of picture: of its table of
    positions, whose halves depend on the row or the column alone, only these are kept.
    The parameters keep their names."""

    def __init__(self, original, grid: int):
        super().__init__()
        self.proj = original.proj
        size = math.isqrt(original.pos_embed.shape[1])
        table = original.pos_embed.reshape(size, size, -1)
        begin = (size - grid) // 2
        halves = table[begin:begin + grid, begin:begin + grid].chunk(2, 2)
        for name, half in zip(("first", "second"), halves):
            axis = 0 if torch.equal(half, half[:1].expand_as(half)) else 1
            kept = half.narrow(axis, 0, 1).clone()
            if not torch.equal(kept.expand_as(half), half):
                raise ValueError("a table of positions of an unknown form")
            self.register_buffer(name, kept, persistent=False)
        self.grid = grid

    def forward(self, latent):
        x = self.proj(latent).flatten(2).transpose(1, 2)
        halves = [half.expand(self.grid, self.grid, -1) for half in (self.first, self.second)]
        return x + torch.cat(halves, 2).reshape(1, self.grid * self.grid, -1)


def dit_xl2():
    return DiT(size=32, channels=4, patch=2, width=1152, depth=28, heads=16,
               classes=1000).initialize(label_std=0.02)


def pixart_xl2():
    """Predicts mean and variance; the mean is the output."""
    return zoo.pixart_with(num_attention_heads=16, attention_head_dim=72, num_layers=28,
                           cross_attention_dim=1152, caption_channels=4096, sample_size=64,
                           mean_only=True)


def sd3_medium():
    return zoo.sd3_with(sample_size=128, in_channels=16, out_channels=16, num_layers=24,
                        attention_head_dim=64, num_attention_heads=24, joint_attention_dim=4096,
                        caption_projection_dim=1536, pooled_projection_dim=2048,
                        pos_embed_max_size=192)


def _zeros(**shapes):
    return {name: torch.zeros(2, *shape) for name, shape in shapes.items()}


MODELS = {
    "sd15_unet": (sd15_unet, _zeros(sample=(4, 64, 64)) | {"timestep": TIMES}
                  | _zeros(encoder_hidden_states=(77, 768))),
    "sdxl_unet": (sdxl_unet, _zeros(sample=(4, 128, 128)) | {"timestep": TIMES}
                  | _zeros(encoder_hidden_states=(77, 2048), text_embeds=(1280,), time_ids=(6,))),
    "dit_xl2": (dit_xl2, _zeros(sample=(4, 32, 32)) | {"timestep": TIMES,
                                                      "class_labels": torch.tensor([1, 1000])}),
    "pixart_xl2": (pixart_xl2, _zeros(sample=(4, 64, 64)) | {"timestep": TIMES}
                   | _zeros(encoder_hidden_states=(120, 4096), encoder_attention_mask=(120,))),
    "sd3_medium": (sd3_medium, _zeros(sample=(16, 128, 128)) | {"timestep": TIMES}
                   | _zeros(encoder_hidden_states=(333, 4096), pooled_projections=(2048,))),
}


def export(name: str) -> onnx.ModelProto:
    make, inputs = MODELS[name]
    symbolic = name != "pixart_xl2"  # zoo.py, pixart
    if not symbolic:
        inputs = {n: x[:1] for n, x in inputs.items()}
    module, draws = weightless(make)
    if hasattr(module, "pos_embed"):
        module.pos_embed = SmallTables(module.pos_embed, inputs["sample"].shape[-1] // 2)
    shapes = {n: list(p.shape) for n, p in module.named_parameters() if p.dim() > 0}
    batch = torch.export.Dim("batch", min=1)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        # Its optimizer follows below: it would fold the zeros that stand for weights.
        program = torch.onnx.export(
            module, tuple(inputs.values()), dynamo=True, opset_version=OPSET, optimize=False,
            input_names=list(inputs), output_names=["out"], verbose=False,
            dynamic_shapes=tuple({0: batch} for _ in inputs) if symbolic else None)
    initializers = program.model.graph.initializers
    lost = set(shapes) - set(initializers)
    if lost:
        raise ValueError("parameters that are not in the graph: " + ", ".join(sorted(lost)))
    graph, inputs_before = program.model.graph, len(inputs)
    for parameter in shapes:
        graph.inputs.append(initializers.pop(parameter))
        graph.inputs[-1].const_value = None
    program.optimize()
    del graph.inputs[inputs_before:]
    model = onnx_ir.to_proto(program.model)
    strip(model)
    constants_to_nodes(model)
    return without_values(model, shapes, draws)


def constants_to_nodes(model: onnx.ModelProto) -> None:
    """Float tables of the module are data, not parameters."""
    graph = model.graph
    kept, nodes = [], []
    for tensor in graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and tensor.dims:
            nodes.append(onnx.helper.make_node("Constant", [], [tensor.name],
                                               name=f"constant_{tensor.name}", value=tensor))
        else:
            kept.append(tensor)
    rest = list(graph.node)
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes + rest)
    graph.initializer.extend(kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in MODELS]
    if unknown:
        parser.error(f"no model {unknown[0]}: {', '.join(MODELS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.names or MODELS:
        path = options.out / f"{name}.onnx"
        onnx.save(export(name), path)
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
