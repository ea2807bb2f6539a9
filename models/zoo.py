"""The models that people train, in small configurations: a registry for tests.

`ZOO[name]` says how one is built and what it eats. Every module takes tensors in
a fixed order and gives one tensor `out`, or `out` and a scalar loss (`loss` set);
parameters have the library's own names, so that its checkpoints fit. Weights are
drawn: nothing is downloaded. models/export_zoo.py writes them as ONNX.
"""
import importlib.util
from dataclasses import dataclass
from typing import Callable

import torch

BATCH = 2


@dataclass
class Entry:
    """One model. `make()` builds the module; `inputs()` gives tensors by forward's
    argument names, the batch first; `roles`: what each input is to a recipe, `data`
    if it is data under its own name. `loss`: the module's last output is its loss.
    `needs`: a Python package beside torch and diffusers. `symbolic`: whether it can be
    exported for any batch."""
    make: Callable
    inputs: Callable
    roles: dict
    loss: bool = False
    needs: str = ""
    symbolic: bool = True
    about: str = ""


ZOO: dict = {}


def entry(name: str, **fields):
    """Registers the builder that follows under `name`."""
    def register(make):
        ZOO[name] = Entry(make=make, about=(make.__doc__ or "").strip(), **fields)
        return make
    return register


def available(name: str) -> bool:
    needs = ZOO[name].needs
    return not needs or importlib.util.find_spec(needs) is not None


def tensors_only(base: type, forward: Callable) -> type:
    """A subclass of a library's module whose forward is `forward(call, *tensors)`;
    `call` is the library's own forward."""
    class TensorsOnly(base):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)

    # torch.export and the TorchScript exporter read the argument names of forward.
    names = list(forward.__code__.co_varnames[1:forward.__code__.co_argcount])
    space = {"body": forward, "base": base}
    exec(f"def forward(self, {', '.join(names)}):\n"
         f"    return body(base.forward.__get__(self), {', '.join(names)})\n", space)
    TensorsOnly.forward = space["forward"]
    TensorsOnly.__name__ = base.__name__
    return TensorsOnly


def _draw(*shape, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _picture(channels: int, size: int) -> Callable:
    return lambda: {"sample": _draw(BATCH, channels, size, size, seed=1)}


def _noisy(channels: int, size: int, steps=(120.0, 801.0), **more) -> Callable:
    """A noisy picture, its times in steps and more inputs: name -> shape without the
    batch, or a tensor."""
    def make():
        inputs = {"sample": _draw(BATCH, channels, size, size, seed=1),
                  "timestep": torch.tensor(steps)}
        for seed, (name, what) in enumerate(more.items(), 2):
            inputs[name] = what if isinstance(what, torch.Tensor) else \
                _draw(BATCH, *what, seed=seed)
        return inputs
    return make


_NOISY = {"sample": "noisy", "timestep": "timestep"}
_TEXT = _NOISY | {"encoder_hidden_states": "text"}
# Down to 2 x 2: attention there has four tokens, more than one in every direction.
_UNET = dict(sample_size=8, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4)
_CROSS = _UNET | dict(in_channels=4, out_channels=4, cross_attention_dim=12,
                      down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
                      up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"))


# --- UNets ---------------------------------------------------------------------

@entry("ddpm_unet", inputs=_noisy(3, 8), roles=_NOISY)
def ddpm_unet():
    """diffusers' UNet2DModel, as DDPM's own: self-attention in one of its levels."""
    from diffusers import UNet2DModel

    def forward(call, sample, timestep):
        return call(sample, timestep, return_dict=False)[0]
    return tensors_only(UNet2DModel, forward)(
        in_channels=3, out_channels=3, attention_head_dim=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"), **_UNET)


def _conditioned(**configuration):
    from diffusers import UNet2DConditionModel

    def forward(call, sample, timestep, encoder_hidden_states):
        return call(sample, timestep, encoder_hidden_states, return_dict=False)[0]
    return tensors_only(UNet2DConditionModel, forward)(**configuration)


@entry("sd15_unet", inputs=_noisy(4, 8, encoder_hidden_states=(5, 12)), roles=_TEXT)
def sd15_unet():
    """UNet2DConditionModel as in Stable Diffusion 1.5: 1x1 convolutions around the
    transformers, two heads at every width."""
    return _conditioned(attention_head_dim=2, **_CROSS)


@entry("sd2_unet", inputs=_noisy(4, 8, encoder_hidden_states=(5, 12)), roles=_TEXT)
def sd2_unet():
    """UNet2DConditionModel as in Stable Diffusion 2: linear layers around the
    transformers, heads of one size."""
    return _conditioned(attention_head_dim=(2, 4), use_linear_projection=True, **_CROSS)


@entry("sdxl_unet", roles=_TEXT | {"text_embeds": "data", "time_ids": "data"},
       inputs=_noisy(4, 8, encoder_hidden_states=(5, 12), text_embeds=(6,),
                     time_ids=torch.tensor([[1024.0, 1024, 0, 0, 1024, 1024],
                                            [768.0, 512, 16, 32, 1024, 1024]])))
def sdxl_unet():
    """UNet2DConditionModel as in SDXL: pooled text and sizes are added to the time's
    embedding; two transformer layers in a level."""
    return sdxl(**_CROSS | dict(
        attention_head_dim=(2, 4), use_linear_projection=True, transformer_layers_per_block=(1, 2),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), addition_embed_type="text_time",
        addition_time_embed_dim=4, projection_class_embeddings_input_dim=6 + 6 * 4))


def sdxl(**configuration):
    from diffusers import UNet2DConditionModel

    def forward(call, sample, timestep, encoder_hidden_states, text_embeds, time_ids):
        added = {"text_embeds": text_embeds, "time_ids": time_ids}
        return call(sample, timestep, encoder_hidden_states, added_cond_kwargs=added,
                    return_dict=False)[0]
    return tensors_only(UNet2DConditionModel, forward)(**configuration)


@entry("controlnet", roles=_TEXT | {"controlnet_cond": "data"},
       inputs=_noisy(4, 8, encoder_hidden_states=(5, 12), controlnet_cond=(3, 16, 16)))
def controlnet():
    """ControlNetModel; out is all residuals, flattened one after the other."""
    from diffusers import ControlNetModel

    def forward(call, sample, timestep, encoder_hidden_states, controlnet_cond):
        down, middle = call(sample, timestep, encoder_hidden_states, controlnet_cond,
                            return_dict=False)
        return torch.cat([x.flatten(1) for x in [*down, middle]], 1)
    configuration = {k: v for k, v in _CROSS.items()
                     if k not in ("sample_size", "out_channels", "up_block_types")}
    return tensors_only(ControlNetModel, forward)(
        attention_head_dim=2, conditioning_embedding_out_channels=(4, 8), **configuration)


# --- Autoencoders ----------------------------------------------------------------

_VAE = dict(in_channels=3, out_channels=3, latent_channels=4, sample_size=16, layers_per_block=1,
            block_out_channels=(8, 16), norm_num_groups=4,
            down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2)


class Encoder(torch.nn.Module):
    """The encoding half of an autoencoder: pictures -> what its codes are made of."""

    def __init__(self, whole):
        super().__init__()
        self.encoder, self.quant_conv = whole.encoder, whole.quant_conv

    def forward(self, sample):
        return self.quant_conv(self.encoder(sample))


class Decoder(torch.nn.Module):
    """The decoding half: codes -> pictures."""

    def __init__(self, whole):
        super().__init__()
        self.post_quant_conv, self.decoder = whole.post_quant_conv, whole.decoder

    def forward(self, sample):
        return self.decoder(self.post_quant_conv(sample))


@entry("vae_encoder", inputs=_picture(3, 16), roles={"sample": "clean"})
def vae_encoder():
    """AutoencoderKL's encoder: mean and log variance of the codes."""
    from diffusers import AutoencoderKL
    return Encoder(AutoencoderKL(**_VAE))


@entry("vae_decoder", inputs=_picture(4, 8), roles={"sample": "clean"})
def vae_decoder():
    """AutoencoderKL's decoder."""
    from diffusers import AutoencoderKL
    return Decoder(AutoencoderKL(**_VAE))


@entry("vae_kl", roles={"sample": "clean", "noise": "noise"}, loss=True,
       inputs=lambda: {"sample": _draw(BATCH, 3, 16, 16, seed=1),
                       "noise": _draw(BATCH, 4, 8, 8, seed=2)})
def vae_kl():
    """AutoencoderKL as it is trained: the squared error of the reconstruction plus a
    weighted KL divergence, the codes drawn with the given noise."""
    from diffusers import AutoencoderKL

    class Training(AutoencoderKL):
        def forward(self, sample, noise):
            codes = self.encode(sample).latent_dist
            out = self.decode(codes.mean + codes.std * noise).sample
            return out, (out - sample).square().mean() + 1e-2 * codes.kl().mean()
    return Training(**_VAE)


def _vq():
    from diffusers import VQModel
    return VQModel(**{k: v for k, v in _VAE.items() if k != "sample_size"},
                   num_vq_embeddings=16, vq_embed_dim=4)


@entry("vq_encoder", inputs=_picture(3, 16), roles={"sample": "clean"})
def vq_encoder():
    """VQModel's encoder, up to the codes that are then quantized."""
    return Encoder(_vq())


@entry("vq_decoder", inputs=_picture(4, 8), roles={"sample": "clean"})
def vq_decoder():
    """VQModel's decoder, from quantized codes."""
    return Decoder(_vq())


@entry("vq_whole", inputs=_picture(3, 16), roles={"sample": "clean"})
def vq_whole():
    """VQModel: encodes, takes each code's nearest entry of the table, decodes."""
    from diffusers import VQModel

    def forward(call, sample):
        return call(sample, return_dict=False)[0]
    return tensors_only(VQModel, forward)(
        **{k: v for k, v in _VAE.items() if k != "sample_size"}, num_vq_embeddings=16,
        vq_embed_dim=4)


# --- Transformers ------------------------------------------------------------------

@entry("dit", roles=_NOISY | {"class_labels": "label"},
       inputs=_noisy(4, 8, class_labels=torch.tensor([1, 3])))
def dit():
    """DiTTransformer2DModel: adaLN-zero blocks, classes; predicts mean and variance."""
    return dit_with(num_attention_heads=2, attention_head_dim=8, num_layers=2, sample_size=8,
                    num_embeds_ada_norm=4)


def dit_with(**configuration):
    from diffusers import DiTTransformer2DModel

    def forward(call, sample, timestep, class_labels):
        return call(sample, timestep, class_labels, return_dict=False)[0]
    return tensors_only(DiTTransformer2DModel, forward)(
        in_channels=4, out_channels=8, patch_size=2, activation_fn="gelu-approximate",
        norm_type="ada_norm_zero", norm_elementwise_affine=False, norm_eps=1e-5, **configuration)


@entry("pixart", roles=_NOISY | {"encoder_hidden_states": "text", "encoder_attention_mask": "data"},
       inputs=_noisy(4, 8, encoder_hidden_states=(5, 12), encoder_attention_mask=torch.tensor(
           [[1.0, 1, 1, 0, 0], [1.0, 1, 1, 1, 1]])),
       symbolic=False)  # torch.export finds the batch in its reshapes not provable
def pixart():
    """PixArtTransformer2DModel (alpha): one modulation for all blocks, a mask over
    the text."""
    return pixart_with(num_attention_heads=2, attention_head_dim=8, cross_attention_dim=16,
                       caption_channels=12, num_layers=2, sample_size=8)


def pixart_with(mean_only: bool = False, **configuration):
    """`mean_only`: without the variance, the second half of the channels."""
    from diffusers import PixArtTransformer2DModel

    def forward(call, sample, timestep, encoder_hidden_states, encoder_attention_mask):
        out = call(sample, encoder_hidden_states, timestep, encoder_attention_mask=
                   encoder_attention_mask, added_cond_kwargs={"resolution": None,
                                                              "aspect_ratio": None},
                   return_dict=False)[0]
        return out.chunk(2, 1)[0] if mean_only else out
    return tensors_only(PixArtTransformer2DModel, forward)(
        in_channels=4, out_channels=8, patch_size=2, use_additional_conditions=False,
        norm_type="ada_norm_single", norm_elementwise_affine=False, norm_eps=1e-6, **configuration)


@entry("sd3", roles=_TEXT | {"pooled_projections": "data"},
       inputs=_noisy(4, 8, encoder_hidden_states=(5, 12), pooled_projections=(6,)))
def sd3():
    """SD3Transformer2DModel (MMDiT): attention over text and picture tokens joined;
    the last block leaves the text as it is."""
    return sd3_with(sample_size=8, num_layers=2, attention_head_dim=8, num_attention_heads=2,
                    joint_attention_dim=12, caption_projection_dim=16, pooled_projection_dim=6,
                    in_channels=4, out_channels=4, pos_embed_max_size=6)


@entry("sd35", roles=_TEXT | {"pooled_projections": "data"},
       inputs=_noisy(4, 8, encoder_hidden_states=(5, 12), pooled_projections=(6,)))
def sd35():
    """SD3Transformer2DModel as in SD 3.5: RMS norms of queries and keys, and a block
    with an attention of its own over the picture."""
    return sd3_with(sample_size=8, num_layers=2, attention_head_dim=8, num_attention_heads=2,
                    joint_attention_dim=12, caption_projection_dim=16, pooled_projection_dim=6,
                    in_channels=4, out_channels=4, pos_embed_max_size=6, qk_norm="rms_norm",
                    dual_attention_layers=(0,))


def sd3_with(**configuration):
    from diffusers import SD3Transformer2DModel

    def forward(call, sample, timestep, encoder_hidden_states, pooled_projections):
        return call(sample, encoder_hidden_states, pooled_projections, timestep,
                    return_dict=False)[0]
    return tensors_only(SD3Transformer2DModel, forward)(patch_size=2, **configuration)


def _flux_inputs():
    return {"hidden_states": _draw(BATCH, 16, 8, seed=1), "timestep": torch.tensor([0.12, 0.8]),
            "encoder_hidden_states": _draw(BATCH, 5, 12, seed=2),
            "pooled_projections": _draw(BATCH, 6, seed=3), "guidance": torch.tensor([3.5, 1.0])}


@entry("flux", inputs=_flux_inputs,
       roles={"hidden_states": "noisy", "timestep": "timestep", "encoder_hidden_states": "text",
              "pooled_projections": "data", "guidance": "data"})
def flux():
    """FluxTransformer2DModel: joint and single blocks, rotary positions, guidance; 16
    picture tokens (4 x 4) and five of text."""
    from diffusers import FluxTransformer2DModel

    class WithPositions(FluxTransformer2DModel):
        def forward(self, hidden_states, timestep, encoder_hidden_states, pooled_projections,
                    guidance):
            rows = torch.arange(4.0)
            picture = torch.stack([torch.zeros(16), rows.repeat_interleave(4), rows.repeat(4)], 1)
            return super().forward(hidden_states, encoder_hidden_states, pooled_projections,
                                   timestep, picture, torch.zeros(5, 3), guidance,
                                   return_dict=False)[0]
    return WithPositions(patch_size=1, in_channels=8, num_layers=1, num_single_layers=1,
                         attention_head_dim=8, num_attention_heads=2, joint_attention_dim=12,
                         pooled_projection_dim=6, guidance_embeds=True, axes_dims_rope=(2, 2, 4))


# --- Encoders --------------------------------------------------------------------

def _tokens():
    return {"input_ids": torch.tensor([[1, 7, 3, 9, 2, 2], [1, 4, 4, 30, 11, 2]])}


_CLIP = dict(vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
             num_attention_heads=2, max_position_embeddings=6, bos_token_id=1, eos_token_id=2,
             pad_token_id=2)


@entry("clip_l", inputs=_tokens, roles={"input_ids": "text"}, needs="transformers")
def clip_l():
    """CLIPTextModel, SDXL's first text encoder: quick GELU, causal mask."""
    from transformers import CLIPTextConfig, CLIPTextModel

    def forward(call, input_ids):
        return call(input_ids=input_ids).last_hidden_state
    return tensors_only(CLIPTextModel, forward)(CLIPTextConfig(hidden_act="quick_gelu", **_CLIP))


@entry("clip_g", inputs=_tokens, roles={"input_ids": "text"}, needs="transformers")
def clip_g():
    """CLIPTextModelWithProjection, SDXL's second: GELU; out is the pooled, projected
    text beside the next to last layer."""
    from transformers import CLIPTextConfig, CLIPTextModelWithProjection

    def forward(call, input_ids):
        out = call(input_ids=input_ids, output_hidden_states=True)
        return torch.cat([out.text_embeds, out.hidden_states[-2].flatten(1)], 1)
    return tensors_only(CLIPTextModelWithProjection, forward)(
        CLIPTextConfig(hidden_act="gelu", projection_dim=12, **_CLIP))


@entry("t5", inputs=_tokens, roles={"input_ids": "text"}, needs="transformers")
def t5():
    """T5EncoderModel (v1.1): RMS norms, relative position biases, gated GELU; the
    embedding table is stored under two names."""
    from transformers import T5Config, T5EncoderModel

    def forward(call, input_ids):
        return call(input_ids=input_ids).last_hidden_state
    return tensors_only(T5EncoderModel, forward)(
        T5Config(vocab_size=32, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2,
                 feed_forward_proj="gated-gelu", relative_attention_num_buckets=8,
                 relative_attention_max_distance=16))


@entry("vit", inputs=_picture(3, 16), roles={"sample": "clean"}, needs="timm")
def vit():
    """timm's VisionTransformer: the tokens that a representation loss compares."""
    from timm.models.vision_transformer import VisionTransformer

    class Features(VisionTransformer):
        def forward(self, sample):
            return self.forward_features(sample)
    return Features(img_size=16, patch_size=4, embed_dim=16, depth=2, num_heads=2, num_classes=0)
